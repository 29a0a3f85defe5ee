// From what agents report in their NodePlans to DependencySnapshots and to the run. The test plays the agents.
#include <gmock/gmock.h>

#include "lib/base/json.h"
#include "lib/deps/key.h"
#include "tests/operator/operator_fixture.h"

namespace paceline::operator_ {
namespace {

using ::testing::HasSubstr;

class SnapshotTest : public OperatorTest {
 protected:
  SnapshotTest() {
    deps::KeyInputs inputs;
    inputs.ns = "team";
    inputs.image = "sha256:" + std::string(64, 'b');
    inputs.machine.arch = "x86_64";
    inputs.command = "make";
    inputs.capture = {"/opt/venv"};
    document_ = deps::KeyDocument(inputs);
    key_ = deps::KeyOf(document_).Hex();
    name_ = SnapshotName(key_);
  }

  // A running job of one worker that installs, on n0.
  void StartJob() {
    job_ = TrainingJob("llama", {{"workers", 1}});
    ASSERT_TRUE(Eventually([&] { return Exists(kube::kJobs, "llama-g0"); }));
    Json pod = MakePod(Get(kube::kJobs, "llama-g0"), 0);
    pod_ = pod["metadata"]["name"];
    pod["spec"]["volumes"] = Json::array(
        {{{"name", "deps"},
          {"csi",
           {{"driver", api::kCsiDriver}, {"volumeAttributes", {{"type", "deps"}, {"key", DumpJson(document_)}}}}}}});
    pod["metadata"].erase("resourceVersion");
    server_.Put(kube::kPods, pod);
    RunPod(pod_, "n0");
  }

  std::string In(Duration from_now) { return FormatRfc3339(clock_.WallNow() + from_now); }

  // What the agent of a node says of the pod.
  void Say(const std::string& state, const Json& more = Json::object(), const std::string& node = "n0") {
    Json dependencies = {{"key", key_}, {"state", state}, {"at", In(seconds(-60))}};
    dependencies.update(more);
    const std::string uid = Get(kube::kPods, pod_)["metadata"]["uid"];
    Json stages = Json::array();
    for (const std::string& stage : stages_) stages.push_back({{"name", stage}, {"at", In(seconds(0))}});
    Put(node, Json::array({{{"uid", uid},
                            {"namespace", "team"},
                            {"name", pod_},
                            {"stages", stages},
                            {"dependencies", dependencies}}}));
  }
  void Put(const std::string& node, const Json& pods) {
    server_.Put(kNodePlans, {{"apiVersion", api::kApiVersion},
                             {"kind", "NodePlan"},
                             {"metadata", {{"name", node}}},
                             {"spec", Json::object()},
                             {"status", {{"heartbeat", In(seconds(0))}, {"pods", pods}}}});
  }
  Json Held(Duration expires = std::chrono::hours(1)) {
    return {{"digest", "sha256:1"}, {"sizeBytes", 1000}, {"recordedAt", In(seconds(-30))}, {"expiresAt", In(expires)}};
  }
  // At any snapshot, without a failure.
  static bool HasLooked(Replica& replica) {
    return replica.MetricsPage().find(
               R"(controller_runtime_reconcile_total{controller="dependencysnapshot",result="success"})") !=
           std::string::npos;
  }
  // "" while there is no such object or field.
  static std::string Text(const Json& object, const Json::json_pointer& path) {
    return object.contains(path) ? object.at(path).get<std::string>() : "";
  }
  std::string State() { return Text(Get(kDependencySnapshots, name_), "/status/state"_json_pointer); }

  Json document_, job_;
  std::string key_, name_, pod_;
  std::vector<std::string> stages_;
};

TEST_F(SnapshotTest, IsRecordedRestoredAndTold) {
  auto replica = Start();
  StartJob();
  Say("Installing", {{"cause", "NoSnapshot"}, {"reason", "no snapshot yet"}});
  ASSERT_TRUE(Eventually([&] { return State() == "Recording"; }));
  const Json made = Get(kDependencySnapshots, name_);
  EXPECT_EQ(made["spec"]["key"], key_);
  EXPECT_EQ(made["spec"]["inputs"]["install"], "make");
  EXPECT_EQ(made["metadata"]["labels"][kManagedByLabel], kManagedByValue);

  stages_ = {"dependencies_installed"};
  Json end = Held();
  end.update(
      {{"cause", "NoSnapshot"}, {"reason", "no snapshot yet"}, {"seconds", 34.5}, {"serviceAccount", "trainer"}});
  Say("Recorded", end);
  ASSERT_TRUE(Eventually([&] { return State() == "Ready"; }));
  const Json status = Get(kDependencySnapshots, name_)["status"];
  EXPECT_EQ(status["recordedByNode"], "n0");
  EXPECT_EQ(status["recordedByPod"], pod_);
  EXPECT_EQ(status["recordedByRun"], RunNameOf(job_));
  EXPECT_EQ(status["sizeBytes"], 1000);
  EXPECT_EQ(status["recordedByServiceAccount"], "trainer");
  const std::string run = RunNameOf(job_);
  ASSERT_TRUE(Eventually([&] { return !EventNotes("DependenciesRecorded").empty(); }));
  for (const std::string& part : {std::string("1000 bytes"), run, pod_, std::string("service account trainer"),
                                  std::string("node n0"), std::string("sha256:1"), key_}) {
    EXPECT_THAT(EventNotes("DependenciesRecorded"), HasSubstr(part)) << "who has brought what";
  }
  ASSERT_TRUE(
      Eventually([&] { return Text(Get(kTrainingRuns, run), "/status/snapshot/outcome"_json_pointer) == "Recorded"; }));
  const Json told = Get(kTrainingRuns, run)["status"];
  EXPECT_EQ(told["snapshot"]["name"], name_);
  EXPECT_EQ(told["workers"][0]["dependencies"],
            (Json{{"outcome", "Recorded"}, {"reason", "no snapshot yet"}, {"seconds", 34.5}}));

  // The same pod's report as if it had restored: a use, counted once over a restart of the operator.
  Say("Restored", Held());
  ASSERT_TRUE(Eventually([&] { return Get(kDependencySnapshots, name_)["status"].value("uses", 0) == 1; }));
  EXPECT_TRUE(replica->Stop().ok());
  const std::string version = Get(kDependencySnapshots, name_)["metadata"]["resourceVersion"];
  replica = Start();
  ASSERT_TRUE(Eventually([&] { return replica->get().is_ready(); }));
  ASSERT_TRUE(Eventually([&] { return HasLooked(*replica); }));
  EXPECT_EQ(Get(kDependencySnapshots, name_)["metadata"]["resourceVersion"], version) << "nothing is written again";

  // Removed by hand it comes back as long as somebody tells of it.
  server_.Erase(kDependencySnapshots, {"team", name_});
  ASSERT_TRUE(Eventually([&] { return State() == "Ready"; }));
}

TEST_F(SnapshotTest, FailureIsAnEventOnceAndTheObjectGoesInTheEnd) {
  auto replica = Start();
  StartJob();
  Say("NotRecorded", {{"cause", "NoSnapshot"}, {"notRecorded", "/opt/venv/id_rsa is a private key"}});
  ASSERT_TRUE(Eventually([&] { return State() == "Failed"; }));
  const Json object = Get(kDependencySnapshots, name_);
  EXPECT_EQ(Condition(object, "Ready", "reason"), "NotRecorded");
  EXPECT_THAT(Condition(object, "Ready", "message"), HasSubstr("pod " + pod_ + " on node n0: /opt/venv/id_rsa"));
  ASSERT_TRUE(Eventually([&] { return EventNotes("NotRecorded").find("private key") != std::string::npos; }));

  // A snapshot that ended two days ago, of which nobody tells any more.
  Json ended = object;
  ended["metadata"].erase("resourceVersion");
  ended["status"] = {{"state", "Ready"},
                     {"digest", "sha256:1"},
                     {"recordedAt", In(std::chrono::hours(-72))},
                     {"expiresAt", In(std::chrono::hours(-48))}};
  Put("n0", Json::array());
  server_.Put(kDependencySnapshots, ended);
  ASSERT_TRUE(Eventually([&] { return !Exists(kDependencySnapshots, name_); }));
}

TEST_F(SnapshotTest, WhatIsPutAsideIsToldUntilItIsRecordedAnew) {
  const auto replica = Start();
  StartJob();
  Say("Restored", Held());
  ASSERT_TRUE(Eventually([&] { return State() == "Ready"; }));
  Json lost = Held();
  lost.update(
      {{"quarantined", "the store has no right bytes of 2 of its chunks"}, {"quarantinedAt", In(seconds(-10))}});
  Say("Restored", lost);
  ASSERT_TRUE(Eventually([&] { return State() == "Quarantined"; }));
  EXPECT_EQ(Condition(Get(kDependencySnapshots, name_), "Ready", "reason"), "Damaged");
  ASSERT_TRUE(Eventually([&] { return EventNotes("Damaged").find("node n0: the store has no") != std::string::npos; }));
  // The next pod installs, and is recorded.
  Say("Installing", {{"cause", "Quarantined"}, {"reason", "put aside by n0"}, {"at", In(seconds(-5))}});
  ASSERT_TRUE(
      Eventually([&] { return Condition(Get(kDependencySnapshots, name_), "Ready", "reason") == "Quarantined"; }));
  Json end = Held();
  end.update({{"cause", "Quarantined"}, {"digest", "sha256:2"}, {"recordedAt", In(seconds(0))}});
  Say("Recorded", end);
  ASSERT_TRUE(Eventually([&] { return State() == "Ready"; }));
  EXPECT_EQ(Get(kDependencySnapshots, name_)["status"]["digest"], "sha256:2");
}

TEST_F(SnapshotTest, ItsEndComesByItself) {
  const auto replica = Start();
  StartJob();
  Say("Recorded", Held(seconds(2)));
  ASSERT_TRUE(Eventually([&] { return State() == "Ready"; }));
  ASSERT_TRUE(Eventually([&] { return State() == "Expired"; }));
}

TEST_F(SnapshotTest, APodThatIsNotWhatTheAgentSaysMakesNone) {
  const auto replica = Start();
  StartJob();
  Json pod = Get(kube::kPods, pod_);
  pod["metadata"].erase("resourceVersion");
  pod["spec"]["volumes"][0]["csi"]["volumeAttributes"]["key"] = "{}";
  server_.Put(kube::kPods, pod);
  Say("Restored", Held());
  Say("Recorded", Held());
  ASSERT_TRUE(Eventually([&] { return HasLooked(*replica); }));
  EXPECT_FALSE(Exists(kDependencySnapshots, name_));
}

}  // namespace
}  // namespace paceline::operator_
