#include "lib/api/crd_columns.h"

namespace paceline::api {

namespace {

constexpr Column kAge = {"Age", "date", ".metadata.creationTimestamp", "Time since the object was made."};

constexpr const char* kStageColumn = "Seconds of this stage, of the worker that took longest.";

std::vector<Column> TrainingJobColumns() {
  return {{"Workers", "integer", ".spec.workers", "Workers of the job."},
          {"Ready", "integer", ".status.workers.ready", "Workers that are ready."},
          {"Status", "string", ".status.phase", "How far the job is."},
          {"Run", "string", ".status.currentRun", "The current TrainingRun."},
          {"Restarts", "integer", ".status.restarts", "Restarts after a failure."},
          kAge};
}

std::vector<Column> TrainingRunColumns() {
  return {{"Job", "string", ".spec.job.name", "The job."},
          {"Start", "integer", ".spec.generation", "Which start of the job."},
          {"Workers", "integer", ".spec.workers", "Workers of the run."},
          {"Status", "string", ".status.phase", "How far the run is."},
          {"Startup", "number", ".status.wallSeconds", "Seconds until the first step."},
          {"Queued", "number", R"(.status.stages[?(@.name=="Queued")].maxSeconds)", kStageColumn},
          {"Scheduling", "number", R"(.status.stages[?(@.name=="Scheduling")].maxSeconds)", kStageColumn},
          {"Image", "number", R"(.status.stages[?(@.name=="Image")].maxSeconds)", kStageColumn},
          {"Container", "number", R"(.status.stages[?(@.name=="ContainerStart")].maxSeconds)", kStageColumn},
          {"First Step", "number", R"(.status.stages[?(@.name=="FirstStep")].maxSeconds)", kStageColumn},
          {"Kind", "string", ".spec.job.kind", "Kind of the job.", 1},
          {"Slowdown", "number", ".status.slowdown", "Cost of stragglers.", 1},
          {"Gang", "string", ".spec.gang", "Which gang of the job.", 1},
          kAge};
}

std::vector<Column> NodePlanColumns() {
  return {{"Ready", "string", R"(.status.conditions[?(@.type=="Ready")].status)", "Whether the agent works."},
          {"Agent", "string", ".status.agentVersion", "Version of the agent."},
          {"Kernel", "string", ".status.facts.kernel", "Kernel of the node."},
          {"Containerd", "string", ".status.facts.containerd", "containerd of the node.", 1},
          {"GPUs", "integer", ".status.facts.gpus", "GPUs of the node."},
          {"Driver", "string", ".status.facts.nvidiaDriver", "NVIDIA driver of the node.", 1},
          {"Heartbeat", "date", ".status.heartbeat", "When the agent last wrote."},
          kAge};
}

std::vector<Column> ImageProfileColumns() {
  return {{"Image", "string", ".spec.image", "The image."},
          {"State", "string", ".status.state", "How far its conversion is."},
          {"Size", "integer", ".status.artifact.sizeBytes", "Bytes of the block image."},
          {"Hot Bytes", "integer", ".status.hotSet.sizeBytes", "Bytes that starts read."},
          {"Hit Ratio", "number", ".status.hitRatio", "How well the hot set served."},
          {"Last Used", "date", ".status.lastUsed", "When a container last started from it."},
          {"Profile", "string", ".spec.profile", "Which use of it.", 1},
          {"Starts", "integer", ".status.startsSeen", "Starts that were recorded.", 1},
          {"Digest", "string", ".spec.digest", "Manifest of the image.", 1},
          kAge};
}

std::vector<Column> DependencySnapshotColumns() {
  return {{"State", "string", ".status.state", "Whether it can be used."},
          {"Why", "string", R"(.status.conditions[?(@.type=="Ready")].reason)", "Reason of its state."},
          {"Size", "integer", ".status.sizeBytes", "Bytes of the snapshot."},
          {"Uses", "integer", ".status.uses", "Runs that restored it."},
          {"Last Used", "date", ".status.lastUsed", "When it was last restored."},
          {"Ends", "string", ".status.expiresAt", "When it is restored no more."},
          {"Recorded By", "string", ".status.recordedByRun", "The run that it is from.", 1},
          {"Node", "string", ".status.recordedByNode", "The node that recorded it.", 1},
          {"Install", "string", ".spec.inputs.install", "The install command.", 1},
          kAge};
}

std::vector<Column> StragglerPolicyColumns() {
  return {{"Action", "string", ".spec.action", "What is done to a slow node."},
          {"Max Nodes", "string", ".spec.budget.maxNodes", "How many nodes may be out."},
          {"Nodes", "integer", ".status.selectedNodes", "Nodes that the policy is for."},
          {"Last Action", "date", ".status.lastAction", "When something was last done."},
          kAge};
}

std::vector<Column> IncidentColumns() {
  return {{"Run", "string", ".spec.run", "The run that it happened to."},
          {"Trigger", "string", ".spec.trigger.kind", "What set it off."},
          {"Verdict", "string", ".status.verdict.category", "The class of the cause."},
          {"Nodes", "string", ".status.verdict.nodes", "Nodes to blame."},
          {"Confidence", "number", ".status.verdict.confidence", "0: a guess, 1: certain."},
          {"State", "string", ".status.state", "Whether it is over."},
          {"Cause", "string", ".status.verdict.cause", "The cause in one sentence.", 1},
          kAge};
}

}  // namespace

std::vector<Column> PrinterColumns(std::string_view kind) {
  if (kind == "TrainingJob") return TrainingJobColumns();
  if (kind == "TrainingRun") return TrainingRunColumns();
  if (kind == "NodePlan") return NodePlanColumns();
  if (kind == "ImageProfile") return ImageProfileColumns();
  if (kind == "DependencySnapshot") return DependencySnapshotColumns();
  if (kind == "StragglerPolicy") return StragglerPolicyColumns();
  if (kind == "Incident") return IncidentColumns();
  return {};
}

}  // namespace paceline::api
