#include "lib/api/crd.h"

#include "lib/api/dependency_snapshot_fields.h"
#include "lib/api/field_schema.h"
#include "lib/api/image_profile_fields.h"
#include "lib/api/incident_fields.h"
#include "lib/api/node_plan_fields.h"
#include "lib/api/straggler_policy_fields.h"
#include "lib/api/training_job_fields.h"
#include "lib/api/training_run_fields.h"

namespace paceline::api {

namespace {

// A column of `kubectl get`. Priority 1 shows with -o wide only.
struct Column {
  std::string_view name;
  std::string_view type;
  std::string_view path;
  std::string_view doc;
  int priority = 0;
};

constexpr Column kAge = {"Age", "date", ".metadata.creationTimestamp", "Time since the object was made."};

struct KindDescription {
  std::string_view kind;
  std::string_view doc;
  OrderedJson (*schema)();
  std::vector<Column> columns;
};

const std::vector<KindDescription>& Descriptions() {
  static const std::vector<KindDescription> descriptions = {
      {"TrainingJob",
       "A training job of a fixed number of workers that start together, with everything that makes its start fast.",
       StructSchema<TrainingJob>,
       {{"Workers", "integer", ".spec.workers", "Workers of the job."},
        {"Ready", "integer", ".status.workers.ready", "Workers that are ready."},
        {"Status", "string", ".status.phase", "How far the job is."},
        {"Run", "string", ".status.currentRun", "The current TrainingRun."},
        {"Restarts", "integer", ".status.restarts", "Restarts after a failure."},
        kAge}},
      {"TrainingRun",
       "One start of a training job of any kind, and where its time went.",
       StructSchema<TrainingRun>,
       {{"Job", "string", ".spec.job.name", "The job."},
        {"Kind", "string", ".spec.job.kind", "Its kind."},
        {"Start", "integer", ".spec.generation", "Which start of the job."},
        {"Workers", "integer", ".spec.workers", "Workers of the run."},
        {"Status", "string", ".status.phase", "How far the run is."},
        {"Startup", "number", ".status.wallSeconds", "Seconds until the first step."},
        {"Slowdown", "number", ".status.slowdown", "Cost of stragglers.", 1},
        {"Gang", "string", ".spec.gang", "Which gang of the job.", 1},
        kAge}},
      {"NodePlan",
       "What one node is to do and what it can do. The object has the node's name.",
       StructSchema<NodePlan>,
       {{"Ready", "string", R"(.status.conditions[?(@.type=="Ready")].status)", "Whether the agent works."},
        {"Agent", "string", ".status.agentVersion", "Version of the agent."},
        {"Kernel", "string", ".status.facts.kernel", "Kernel of the node."},
        {"Containerd", "string", ".status.facts.containerd", "containerd of the node.", 1},
        {"GPUs", "integer", ".status.facts.gpus", "GPUs of the node."},
        {"Driver", "string", ".status.facts.nvidiaDriver", "NVIDIA driver of the node.", 1},
        {"Heartbeat", "date", ".status.heartbeat", "When the agent last wrote."},
        kAge}},
      {"ImageProfile",
       "What is known of one image for one use: its block image, and which parts a start reads.",
       StructSchema<ImageProfile>,
       {{"Image", "string", ".spec.image", "The image."},
        {"Profile", "string", ".spec.profile", "Which use of it."},
        {"Starts", "integer", ".status.startsSeen", "Starts that were recorded."},
        {"Hot Bytes", "integer", ".status.hotSet.sizeBytes", "Bytes that starts read."},
        {"Hit Ratio", "number", ".status.hitRatio", "How well the hot set served."},
        {"Digest", "string", ".spec.digest", "Manifest of the image.", 1},
        kAge}},
      {"DependencySnapshot",
       "The recorded result of an install command.",
       StructSchema<DependencySnapshot>,
       {{"State", "string", ".status.state", "Whether it can be used."},
        {"Size", "integer", ".status.sizeBytes", "Bytes of the snapshot."},
        {"Uses", "integer", ".status.uses", "Runs that restored it."},
        {"Last Used", "date", ".status.lastUsed", "When it was last restored."},
        kAge}},
      {"StragglerPolicy",
       "When a slow node is blamed, what may be done to it, and the limits on doing it.",
       StructSchema<StragglerPolicy>,
       {{"Action", "string", ".spec.action", "What is done to a slow node."},
        {"Max Nodes", "string", ".spec.budget.maxNodes", "How many nodes may be out."},
        {"Nodes", "integer", ".status.selectedNodes", "Nodes that the policy is for."},
        {"Last Action", "date", ".status.lastAction", "When something was last done."},
        kAge}},
      {"Incident",
       "A stall or a straggler: what set it off, what Paceline thinks it was, and what was done.",
       StructSchema<Incident>,
       {{"Run", "string", ".spec.run", "The run that it happened to."},
        {"Trigger", "string", ".spec.trigger.kind", "What set it off."},
        {"Verdict", "string", ".status.verdict.category", "The class of the cause."},
        {"Nodes", "string", ".status.verdict.nodes", "Nodes to blame."},
        {"Confidence", "number", ".status.verdict.confidence", "0: a guess, 1: certain."},
        {"State", "string", ".status.state", "Whether it is over."},
        {"Cause", "string", ".status.verdict.cause", "The cause in one sentence.", 1},
        kAge}},
  };
  return descriptions;
}

const KindDescription& DescriptionOf(std::string_view kind) {
  for (const KindDescription& description : Descriptions()) {
    if (description.kind == kind) return description;
  }
  return Descriptions().front();  // kAllKinds and the list above are held equal by a test
}

OrderedJson Columns(const std::vector<Column>& columns) {
  OrderedJson list = OrderedJson::array();
  for (const Column& column : columns) {
    OrderedJson entry{{"name", std::string(column.name)},
                      {"type", std::string(column.type)},
                      {"jsonPath", std::string(column.path)},
                      {"description", std::string(column.doc)}};
    if (column.priority != 0) entry["priority"] = column.priority;
    list.push_back(std::move(entry));
  }
  return list;
}

// The schema with the parts that the API server knows by itself.
OrderedJson RootSchema(const KindDescription& description) {
  OrderedJson fields = description.schema();
  OrderedJson root{{"description", std::string(description.doc)}};
  OrderedJson properties{
      {"apiVersion", {{"type", "string"}}}, {"kind", {{"type", "string"}}}, {"metadata", {{"type", "object"}}}};
  properties["spec"] = std::move(fields["properties"]["spec"]);
  properties["status"] = std::move(fields["properties"]["status"]);
  fields["properties"] = std::move(properties);
  for (auto it = fields.begin(); it != fields.end(); ++it) root[it.key()] = std::move(it.value());
  return root;
}

}  // namespace

OrderedJson MakeCrd(const KindInfo& kind) {
  const KindDescription& description = DescriptionOf(kind.kind);
  OrderedJson names{{"kind", std::string(kind.kind)},
                    {"listKind", std::string(kind.kind) + "List"},
                    {"plural", std::string(kind.plural)},
                    {"singular", std::string(kind.singular)}};
  if (!kind.short_name.empty()) names["shortNames"] = OrderedJson::array({std::string(kind.short_name)});
  names["categories"] = OrderedJson::array({"paceline"});
  OrderedJson version{{"name", std::string(kVersion)},
                      {"served", true},
                      {"storage", true},
                      {"subresources", {{"status", OrderedJson::object()}}},
                      {"additionalPrinterColumns", Columns(description.columns)},
                      {"schema", {{"openAPIV3Schema", RootSchema(description)}}}};
  return {{"apiVersion", "apiextensions.k8s.io/v1"},
          {"kind", "CustomResourceDefinition"},
          {"metadata", {{"name", std::string(kind.plural) + "." + std::string(kGroup)}}},
          {"spec",
           {{"group", std::string(kGroup)},
            {"names", names},
            {"scope", kind.scope == Scope::kCluster ? "Cluster" : "Namespaced"},
            {"versions", OrderedJson::array({version})}}}};
}

}  // namespace paceline::api
