// The rows. Facts about each kind (labels, who owns whom, what a restart counts) were read from its controller's code;
// tests/api/job_kinds_test.cc has an example of each.
#include "lib/api/job_kinds.h"
#include "lib/api/names.h"

namespace paceline::api {

namespace {

constexpr std::string_view kCompletionIndex = "batch.kubernetes.io/job-completion-index";
constexpr std::string_view kJobSetRestart = "jobset.sigs.k8s.io/restart-attempt";
constexpr std::string_view kReplicatedJob = "jobset.sigs.k8s.io/replicatedjob-name";
constexpr std::string_view kKubeflowIndex = "training.kubeflow.org/replica-index";
constexpr std::string_view kKubeflowJob = "training.kubeflow.org/job-name";

JobKind TrainingJobRow() {
  JobKind row;
  row.group = kGroup;
  row.versions = {kVersion};
  row.kind = "TrainingJob";
  row.plural = "trainingjobs";
  row.pod_label = kJobUidLabel;
  row.pod_label_value = "/metadata/uid";
  row.groups.pods = {{{"/spec/workers"}, std::nullopt}};
  row.rank = {{ValueFrom::kLabel, kCompletionIndex}, {ValueFrom::kAnnotation, kCompletionIndex}};
  row.generation = {{ValueFrom::kLabel, kGenerationLabel}, {ValueFrom::kJobField, "/status/generation"}};
  row.procs_per_pod = {{"/spec/procsPerWorker"}, 1};
  row.suspend_pointer = "/spec/suspend";
  return row;
}

JobKind BatchJobRow() {
  JobKind row;
  row.group = "batch";
  row.versions = {"v1"};
  row.kind = "Job";
  row.plural = "jobs";
  row.pod_label = "batch.kubernetes.io/controller-uid";
  row.pod_label_value = "/metadata/uid";
  row.groups.pods = {{{"/spec/completions", "/spec/parallelism"}, 1}};
  row.rank = {{ValueFrom::kLabel, kCompletionIndex}, {ValueFrom::kAnnotation, kCompletionIndex}};
  row.procs_per_pod = {{}, 1};
  row.suspend_pointer = "/spec/suspend";
  return row;
}

JobKind JobSetRow() {
  JobKind row;
  row.group = "jobset.x-k8s.io";
  row.versions = {"v1alpha2"};
  row.kind = "JobSet";
  row.plural = "jobsets";
  row.pod_label = "jobset.sigs.k8s.io/jobset-uid";
  row.pod_label_value = "/metadata/uid";
  row.name_label = "jobset.sigs.k8s.io/jobset-name";
  row.uid_label = "jobset.sigs.k8s.io/jobset-uid";
  row.groups = {.shape = GroupShape::kList,
                .pointer = "/spec/replicatedJobs",
                .name_pointer = "/name",
                .label = kReplicatedJob,
                .pods = {{{"/replicas"}, 1}, {{"/template/spec/parallelism"}, 1}}};
  row.index = {{ValueFrom::kLabel, kCompletionIndex}, {ValueFrom::kAnnotation, kCompletionIndex}};
  row.block = {ValueFrom::kLabel, "jobset.sigs.k8s.io/job-index"};
  row.block_size = {{"/template/spec/parallelism"}, 1};
  row.generation = {{ValueFrom::kLabel, kJobSetRestart}, {ValueFrom::kJobField, "/status/restarts"}};
  row.procs_per_pod = {{}, 1};
  row.suspend_pointer = "/spec/suspend";
  return row;
}

JobKind TrainJobRow() {
  JobKind row;
  row.group = "trainer.kubeflow.org";
  row.versions = {"v1alpha1"};
  row.kind = "TrainJob";
  row.plural = "trainjobs";
  row.pod_label = "jobset.sigs.k8s.io/jobset-name";  // the JobSet has the TrainJob's name
  row.pod_label_value = "/metadata/name";
  row.groups.pods = {{{"/spec/trainer/numNodes"}, std::nullopt}};  // else the runtime says it, which we do not read
  row.filter = {.label = kReplicatedJob, .excluded = {"dataset-initializer", "model-initializer", "launcher"}};
  row.rank = {{ValueFrom::kLabel, kCompletionIndex}, {ValueFrom::kAnnotation, kCompletionIndex}};
  row.generation = {{ValueFrom::kLabel, kJobSetRestart}};
  row.procs_per_pod = {{"/spec/trainer/numProcPerNode"}, std::nullopt};  // may be "auto"
  row.suspend_pointer = "/spec/suspend";
  return row;
}

JobKind PyTorchJobRow() {
  JobKind row;
  row.group = "kubeflow.org";
  row.versions = {"v1"};
  row.kind = "PyTorchJob";
  row.plural = "pytorchjobs";
  row.pod_label = kKubeflowJob;
  row.pod_label_value = "/metadata/name";
  row.groups = {.shape = GroupShape::kMap,
                .pointer = "/spec/pytorchReplicaSpecs",
                .names = {"Master", "Worker"},
                .label = "training.kubeflow.org/replica-type",
                .pods = {{{"/replicas"}, 1}}};
  row.rank = {{ValueFrom::kEnv, "RANK"}};  // absent in elastic jobs
  row.index = {{ValueFrom::kLabel, kKubeflowIndex}};
  row.procs_per_pod = {{"/spec/nprocPerNode"}, 1};
  row.suspend_pointer = "/spec/runPolicy/suspend";
  return row;
}

JobKind MpiJobRow() {
  JobKind row;
  row.group = "kubeflow.org";
  row.versions = {"v2beta1"};
  row.kind = "MPIJob";
  row.plural = "mpijobs";
  row.pod_label = kKubeflowJob;
  row.pod_label_value = "/metadata/name";
  row.groups = {.shape = GroupShape::kMap,
                .pointer = "/spec/mpiReplicaSpecs",
                .names = {"Worker"},
                .label = "training.kubeflow.org/job-role",
                .pods = {{{"/replicas"}, 1}},
                .extra_pod_if = "/spec/runLauncherAsWorker"};
  row.filter = {.label = "training.kubeflow.org/job-role",
                .excluded = {"launcher"},
                .include_all_if = "/spec/runLauncherAsWorker"};
  // With runLauncherAsWorker the operator has already added one to the workers' index and the launcher has 0.
  row.rank = {{ValueFrom::kLabel, kKubeflowIndex}};
  row.procs_per_pod = {{"/spec/slotsPerWorker"}, 1};
  row.suspend_pointer = "/spec/runPolicy/suspend";
  return row;
}

JobKind VolcanoJobRow() {
  JobKind row;
  row.group = "batch.volcano.sh";
  row.versions = {"v1alpha1"};
  row.kind = "Job";
  row.plural = "jobs";
  row.pod_label = "volcano.sh/job-name";
  row.pod_label_value = "/metadata/name";
  row.groups = {.shape = GroupShape::kList,
                .pointer = "/spec/tasks",
                .name_pointer = "/name",
                .label = "volcano.sh/task-spec",
                .pods = {{{"/replicas"}, 1}}};
  row.rank = {{ValueFrom::kEnv, "RANK"}};  // set by the pytorch plugin
  row.index = {{ValueFrom::kLabel, "volcano.sh/task-index"},
               {ValueFrom::kAnnotation, "volcano.sh/task-index"},
               {ValueFrom::kEnv, "VC_TASK_INDEX"}};
  row.generation = {{ValueFrom::kAnnotation, "volcano.sh/job-version"}, {ValueFrom::kJobField, "/status/version"}};
  row.procs_per_pod = {{}, 1};
  return row;
}

JobKind RayRow(std::string_view kind, std::string_view plural) {
  JobKind row;
  row.group = "ray.io";
  row.versions = {"v1"};
  row.kind = kind;
  row.plural = plural;
  row.pod_label = "ray.io/cluster";
  row.groups = {.shape = GroupShape::kList,
                .name_pointer = "/groupName",
                .label = "ray.io/group",
                .pods = {{{"/replicas"}, std::nullopt}, {{"/numOfHosts"}, 1}}};
  // The head and the submitter carry no rank; Ray places ranks itself, so workers have none that a label shows.
  row.filter = {.label = "ray.io/node-type", .excluded = {"head"}, .is_required = true};
  row.procs_per_pod = {{}, 1};
  row.suspend_pointer = "/spec/suspend";
  return row;
}

JobKind RayJobRow() {
  JobKind row = RayRow("RayJob", "rayjobs");
  row.pod_label_value = "/status/rayClusterName";
  row.groups.pointer = "/spec/rayClusterSpec/workerGroupSpecs";
  return row;
}

JobKind RayClusterRow() {
  JobKind row = RayRow("RayCluster", "rayclusters");
  row.pod_label_value = "/metadata/name";
  row.groups.pointer = "/spec/workerGroupSpecs";
  return row;
}

JobKind LeaderWorkerSetRow() {
  JobKind row;
  row.group = "leaderworkerset.x-k8s.io";
  row.versions = {"v1"};
  row.kind = "LeaderWorkerSet";
  row.plural = "leaderworkersets";
  row.pod_label = "leaderworkerset.sigs.k8s.io/name";
  row.pod_label_value = "/metadata/name";
  row.name_label = "leaderworkerset.sigs.k8s.io/name";
  row.groups.pods = {{{"/spec/leaderWorkerTemplate/size"}, 1}};
  row.rank = {{ValueFrom::kLabel, "leaderworkerset.sigs.k8s.io/worker-index"}};
  row.gang = {ValueFrom::kLabel, "leaderworkerset.sigs.k8s.io/group-index"};
  row.procs_per_pod = {{}, 1};
  return row;
}

}  // namespace

const std::vector<JobKind>& JobKinds() {
  static const std::vector<JobKind> kinds = {TrainingJobRow(), BatchJobRow(),       JobSetRow(),     TrainJobRow(),
                                             PyTorchJobRow(),  MpiJobRow(),         VolcanoJobRow(), RayJobRow(),
                                             RayClusterRow(),  LeaderWorkerSetRow()};
  return kinds;
}

}  // namespace paceline::api
