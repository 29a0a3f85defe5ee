#include "lib/api/job_kinds.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

namespace paceline::api {
namespace {

// One pod of one job of a kind, and who it has to be.
struct IdentityCase {
  std::string name;
  const char* job;
  std::string pod;
  std::string gang;
  int64_t generation;
  bool carries_rank;
  std::optional<int64_t> rank;
  std::optional<int64_t> workers;
  std::optional<int64_t> world_size;
};

constexpr const char* kJobSet = R"({
  "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "set", "namespace": "a", "uid": "u"},
  "spec": {"replicatedJobs": [
    {"name": "driver", "replicas": 1, "template": {"spec": {"parallelism": 1, "completions": 1}}},
    {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 4, "completions": 4}}}]}})";

constexpr const char* kPyTorchJob = R"({
  "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "pt", "namespace": "a", "uid": "u"},
  "spec": {"nprocPerNode": "8", "pytorchReplicaSpecs": {"Worker": {"replicas": 3}, "Master": {}}}})";

constexpr const char* kMpiJob = R"({
  "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "mpi", "namespace": "a", "uid": "u"},
  "spec": {"slotsPerWorker": 2, "mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 4}}}})";

constexpr const char* kMpiJobWithWorkingLauncher = R"({
  "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "mpi", "namespace": "a", "uid": "u"},
  "spec": {"runLauncherAsWorker": true, "mpiReplicaSpecs": {"Launcher": {}, "Worker": {"replicas": 4}}}})";

constexpr const char* kVolcanoJob = R"({
  "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "vc", "namespace": "a", "uid": "u"},
  "spec": {"tasks": [{"name": "master", "replicas": 1}, {"name": "worker", "replicas": 3}]},
  "status": {"version": 7}})";

constexpr const char* kRayJob = R"({
  "apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "ray", "namespace": "a", "uid": "u"},
  "spec": {"rayClusterSpec": {"workerGroupSpecs": [
    {"groupName": "big", "replicas": 2, "numOfHosts": 4}, {"groupName": "small", "replicas": 3}]}},
  "status": {"rayClusterName": "ray-x7"}})";

constexpr const char* kLeaderWorkerSet = R"({
  "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
  "metadata": {"name": "lws", "namespace": "a", "uid": "u"},
  "spec": {"replicas": 3, "leaderWorkerTemplate": {"size": 4}}})";

constexpr const char* kTrainJob = R"({
  "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "tj", "namespace": "a", "uid": "u"},
  "spec": {"trainer": {"numNodes": 4, "numProcPerNode": 8}}})";

constexpr const char* kTrainingJob = R"({
  "apiVersion": "paceline.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "own", "namespace": "a", "uid": "u"},
  "spec": {"workers": 4, "procsPerWorker": 8}, "status": {"generation": 2}})";

constexpr const char* kBatchJob = R"({
  "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job", "namespace": "a", "uid": "u"},
  "spec": {"completions": 4, "parallelism": 4, "completionMode": "Indexed"}})";

std::string Labels(const std::string& labels) { return R"({"metadata": {"labels": {)" + labels + "}}}"; }

void ExpectIdentities(const std::vector<IdentityCase>& cases) {
  for (const IdentityCase& c : cases) {
    const Result<JobIdentity> found = IdentifyPod(MakePodView(Json::parse(c.pod)), Json::parse(c.job));
    ASSERT_TRUE(found.ok()) << c.name << ": " << found.status().ToString();
    EXPECT_EQ(found->gang, c.gang) << c.name;
    EXPECT_EQ(found->generation, c.generation) << c.name;
    EXPECT_EQ(found->carries_rank, c.carries_rank) << c.name;
    EXPECT_EQ(found->rank, c.rank) << c.name;
    EXPECT_EQ(found->workers, c.workers) << c.name;
    EXPECT_EQ(found->world_size, c.world_size) << c.name;
    EXPECT_EQ(found->uid, "u") << c.name;
    EXPECT_EQ(found->ns, "a") << c.name;
  }
}

TEST(JobKinds, KnowWhoAPodOfAnIndexedJobIs) {
  const std::string index3 = Labels(R"("batch.kubernetes.io/job-completion-index": "3")");
  const std::string own = Labels(R"("batch.kubernetes.io/job-completion-index": "3", "paceline.dev/generation": "1")");
  const std::string annotated = R"({"metadata": {"annotations": {"batch.kubernetes.io/job-completion-index": "2"}}})";
  const std::string set_driver = Labels(R"("jobset.sigs.k8s.io/replicatedjob-name": "driver",
    "jobset.sigs.k8s.io/job-index": "0", "batch.kubernetes.io/job-completion-index": "0")");
  const std::string set_worker = Labels(R"("jobset.sigs.k8s.io/replicatedjob-name": "workers",
    "jobset.sigs.k8s.io/job-index": "1", "batch.kubernetes.io/job-completion-index": "2",
    "jobset.sigs.k8s.io/restart-attempt": "5")");
  const std::string set_stranger = Labels(R"("jobset.sigs.k8s.io/replicatedjob-name": "gone",
    "batch.kubernetes.io/job-completion-index": "0")");
  const std::string train_node = Labels(R"("jobset.sigs.k8s.io/replicatedjob-name": "node",
    "batch.kubernetes.io/job-completion-index": "3", "jobset.sigs.k8s.io/restart-attempt": "1")");
  const std::string train_init = Labels(R"("jobset.sigs.k8s.io/replicatedjob-name": "dataset-initializer",
    "batch.kubernetes.io/job-completion-index": "0")");

  ExpectIdentities({
      {"TrainingJob", kTrainingJob, own, "", 1, true, 3, 4, 32},
      {"TrainingJob, pod of a restart not labelled yet", kTrainingJob, index3, "", 2, true, 3, 4, 32},
      {"Indexed Job", kBatchJob, index3, "", 0, true, 3, 4, 4},
      {"Indexed Job by annotation", kBatchJob, annotated, "", 0, true, 2, 4, 4},
      {"Job without index", kBatchJob, "{}", "", 0, true, std::nullopt, 4, 4},
      {"JobSet, first replicated job", kJobSet, set_driver, "", 0, true, 0, 9, 9},
      {"JobSet, second job of the second", kJobSet, set_worker, "", 5, true, 1 + 4 + 2, 9, 9},
      {"JobSet, unknown replicated job", kJobSet, set_stranger, "", 0, true, std::nullopt, 9, 9},
      {"TrainJob node", kTrainJob, train_node, "", 1, true, 3, 4, 32},
      {"TrainJob initializer", kTrainJob, train_init, "", 0, false, std::nullopt, 4, 32},
  });
}

TEST(JobKinds, KnowWhoAPodOfAnotherOperatorIs) {
  const std::string torch_env = R"({"metadata": {"labels": {"training.kubeflow.org/replica-type": "worker",
    "training.kubeflow.org/replica-index": "1"}},
    "spec": {"containers": [{"name": "pytorch", "env": [{"name": "RANK", "value": "2"}]}]}})";
  const std::string torch_elastic = Labels(R"("training.kubeflow.org/replica-type": "worker",
    "training.kubeflow.org/replica-index": "2")");
  const std::string torch_master = Labels(R"("training.kubeflow.org/replica-type": "master",
    "training.kubeflow.org/replica-index": "0")");
  const std::string mpi_worker = Labels(R"("training.kubeflow.org/job-role": "worker",
    "training.kubeflow.org/replica-index": "3")");
  const std::string mpi_launcher = Labels(R"("training.kubeflow.org/job-role": "launcher",
    "training.kubeflow.org/replica-index": "0")");
  const std::string volcano =
      R"({"metadata": {"labels": {"volcano.sh/task-spec": "worker", "volcano.sh/task-index": "1"},
    "annotations": {"volcano.sh/job-version": "3"}}})";
  const std::string ray_worker = Labels(R"("ray.io/node-type": "worker", "ray.io/group": "big")");
  const std::string ray_head = Labels(R"("ray.io/node-type": "head")");
  const std::string ray_submitter = Labels(R"("batch.kubernetes.io/job-name": "ray")");
  const std::string lws = Labels(R"("leaderworkerset.sigs.k8s.io/group-index": "2",
    "leaderworkerset.sigs.k8s.io/worker-index": "1")");

  ExpectIdentities({
      {"PyTorchJob by environment", kPyTorchJob, torch_env, "", 0, true, 2, 4, 32},
      {"PyTorchJob elastic worker", kPyTorchJob, torch_elastic, "", 0, true, 3, 4, 32},
      {"PyTorchJob master", kPyTorchJob, torch_master, "", 0, true, 0, 4, 32},
      {"MPIJob worker", kMpiJob, mpi_worker, "", 0, true, 3, 4, 8},
      {"MPIJob launcher", kMpiJob, mpi_launcher, "", 0, false, std::nullopt, 4, 8},
      {"MPIJob launcher that works", kMpiJobWithWorkingLauncher, mpi_launcher, "", 0, true, 0, 5, 5},
      {"MPIJob worker beside it", kMpiJobWithWorkingLauncher, mpi_worker, "", 0, true, 3, 5, 5},
      {"Volcano worker", kVolcanoJob, volcano, "", 3, true, 2, 4, 4},
      {"RayJob worker", kRayJob, ray_worker, "", 0, true, std::nullopt, 11, 11},
      {"RayJob head", kRayJob, ray_head, "", 0, false, std::nullopt, 11, 11},
      {"RayJob submitter", kRayJob, ray_submitter, "", 0, false, std::nullopt, 11, 11},
      {"LeaderWorkerSet", kLeaderWorkerSet, lws, "2", 0, true, 1, 4, 4},
  });
}

TEST(JobKinds, FindThePodsOfAJob) {
  const std::pair<const char*, const char*> cases[] = {
      {kTrainingJob, "paceline.dev/job-uid=u"},
      {kBatchJob, "batch.kubernetes.io/controller-uid=u"},
      {kJobSet, "jobset.sigs.k8s.io/jobset-uid=u"},
      {kTrainJob, "jobset.sigs.k8s.io/jobset-name=tj"},
      {kPyTorchJob, "training.kubeflow.org/job-name=pt"},
      {kMpiJob, "training.kubeflow.org/job-name=mpi"},
      {kVolcanoJob, "volcano.sh/job-name=vc"},
      {kRayJob, "ray.io/cluster=ray-x7"},
      {kLeaderWorkerSet, "leaderworkerset.sigs.k8s.io/name=lws"},
  };
  for (const auto& [job, selector] : cases) {
    const Result<std::string> found = PodSelector(Json::parse(job));
    EXPECT_EQ(found.ok() ? *found : found.status().ToString(), selector);
  }
  Json young = Json::parse(kRayJob);
  young.erase("status");
  EXPECT_EQ(PodSelector(young).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(PodSelector(Json::object()).status().code(), StatusCode::kInvalidArgument);
}

TEST(JobKinds, AreToldApartByGroup) {
  EXPECT_EQ(FindJobKind("batch/v1", "Job")->group, "batch");
  EXPECT_EQ(FindJobKind("batch.volcano.sh/v1alpha1", "Job")->group, "batch.volcano.sh");
  EXPECT_EQ(FindJobKind("kubeflow.org/v2", "MPIJob")->kind, "MPIJob");  // another version of a kind that we know
  EXPECT_EQ(FindJobKind("v1", "Pod"), nullptr);
  EXPECT_EQ(FindJobKind("", ""), nullptr);
  EXPECT_TRUE(IsIntermediateOwner("batch/v1", "Job"));
  EXPECT_TRUE(IsIntermediateOwner("v1", "Pod"));
  EXPECT_FALSE(IsIntermediateOwner("batch.volcano.sh/v1alpha1", "Job"));
  EXPECT_FALSE(IsIntermediateOwner("apps/v1", "ReplicaSet"));
}

TEST(JobKinds, HaveCompleteRows) {
  std::set<std::string> names;
  for (const JobKind& kind : JobKinds()) {
    EXPECT_TRUE(names.insert(std::string(kind.group) + "/" + std::string(kind.kind)).second);
    EXPECT_FALSE(kind.group.empty() || kind.versions.empty() || kind.plural.empty() || kind.pod_label.empty() ||
                 kind.pod_label_value.empty() || kind.groups.pods.empty())
        << kind.kind;
    EXPECT_TRUE(kind.groups.shape == GroupShape::kSingle || !kind.groups.label.empty()) << kind.kind;
  }
  EXPECT_EQ(names.size(), 10u);
  EXPECT_EQ(JobKinds().front().kind, "TrainingJob");
}

TEST(JobKinds, GuessNothing) {
  Json job = Json::parse(kTrainJob);
  job["spec"]["trainer"] = {{"numProcPerNode", "auto"}};
  Result<JobIdentity> found = IdentifyJob(job);
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->workers.has_value());
  EXPECT_FALSE(found->world_size.has_value());
  EXPECT_FALSE(found->rank.has_value());

  Json torch = Json::parse(kPyTorchJob);
  torch["spec"]["nprocPerNode"] = "auto";
  EXPECT_EQ(IdentifyJob(torch)->world_size, 4);  // as the operator of that kind counts it

  for (const Json& odd : {Json(-1), Json(1e300), Json("4x"), Json(99999999999), Json(true)}) {
    Json volcano = Json::parse(kVolcanoJob);
    volcano["spec"]["tasks"][0]["replicas"] = odd;
    EXPECT_EQ(IdentifyJob(volcano)->workers, 4) << odd;  // as if absent: one
  }
  Json ray = Json::parse(kRayJob);
  for (const char* factor : {"replicas", "numOfHosts"}) {
    ray["spec"]["rayClusterSpec"]["workerGroupSpecs"][0][factor] = 0x7fffffff;
  }
  EXPECT_TRUE(IdentifyJob(ray)->workers.has_value());
  EXPECT_FALSE(IdentifyJob(Json({{"apiVersion", "batch/v1"}, {"kind", "Job"}})).ok());
  EXPECT_FALSE(IdentifyJob(Json({{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", {{"name", "p"}}}})).ok());
}

TEST(JobKinds, PodsAreReadWhateverTheyHold) {
  const PodView pod = MakePodView(Json::parse(R"({
    "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a": "b", "c": 1},
      "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "1"},
                          {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "2", "controller": true}]},
    "spec": {"containers": [{"env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {}}, 7]}, "odd",
                            {"env": [{"name": "A", "value": "2"}]}]}})"));
  EXPECT_EQ(pod.labels.size(), 1u);
  EXPECT_EQ(pod.env, (std::map<std::string, std::string>{{"A", "1"}}));
  ASSERT_NE(ControllerOf(pod.owners), nullptr);
  EXPECT_EQ(ControllerOf(pod.owners)->name, "j");
  EXPECT_EQ(ControllerOf({}), nullptr);
  EXPECT_TRUE(MakePodView(Json::array()).name.empty());
}

}  // namespace
}  // namespace paceline::api
