#include "agent/plan/plan_reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "agent/plan/plan_store.h"
#include "lib/base/json.h"
#include "lib/kube/rest_client.h"
#include "tests/agent/node_folders.h"
#include "tests/fakes/api_server.h"
#include "tests/fakes/capture_log.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::agent {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

// A plan in memory whose mirror may lag behind what was written.
class MemoryPlan final : public PlanStore {
 public:
  Result<api::NodePlan> Read() override {
    if (!failure_.ok()) return failure_;
    return seen_;
  }
  Result<std::string> WriteStatus(const api::NodePlanStatus& status, Deadline) override {
    if (!write_failure_.ok()) return write_failure_;
    ++writes_;
    stored_.status = status;
    stored_.metadata.resource_version = std::to_string(++version_);
    if (!is_lagging_) seen_ = stored_;
    return stored_.metadata.resource_version;
  }

  // The operator writes.
  void Change(const std::function<void(api::NodePlan&)>& change) {
    change(stored_);
    stored_.metadata.resource_version = std::to_string(++version_);
    seen_ = stored_;
  }

  api::NodePlan stored_, seen_;
  bool is_lagging_ = false;
  Status failure_, write_failure_;
  int writes_ = 0;
  int version_ = 0;
};

class PlanReconcilerTest : public ::testing::Test {
 protected:
  PlanReconcilerTest() {
    state_.agent_version = "0.1.0";
    plan_.Change([](api::NodePlan& plan) { plan.metadata.uid = "uid-1"; });
  }

  Result<kube::Action> Reconcile() { return reconciler_.Reconcile({"", "n1"}, Deadline::Infinite(), {}); }

  fakes::SimulatedClock clock_;
  fakes::CaptureLog log_;
  MemoryPlan plan_;
  NodeState state_;
  PlanReconciler reconciler_{{.heartbeat = minutes(5)}, plan_, [this] { return state_; }, clock_, log_.logger()};
};

TEST_F(PlanReconcilerTest, WritesOnNewsAndForTheHeartbeatOnly) {
  ASSERT_TRUE(Reconcile().ok());
  EXPECT_EQ(plan_.writes_, 1) << "the start of an agent is news";
  EXPECT_EQ(*Reconcile()->requeue_after, minutes(5));
  EXPECT_EQ(plan_.writes_, 1);

  clock_.Advance(minutes(4));
  EXPECT_EQ(*Reconcile()->requeue_after, minutes(1));
  EXPECT_EQ(plan_.writes_, 1);

  clock_.Advance(minutes(1));
  ASSERT_TRUE(Reconcile().ok());
  EXPECT_EQ(plan_.writes_, 2);
  EXPECT_EQ(plan_.stored_.status.heartbeat, clock_.WallNow());

  clock_.Advance(minutes(1));
  state_.driver = DriverState::kRegistered;
  ASSERT_TRUE(Reconcile().ok());
  EXPECT_EQ(plan_.writes_, 3);
  EXPECT_EQ(reconciler_.LastOutcome().writes, 3);
}

TEST_F(PlanReconcilerTest, ObservesEachGeneration) {
  plan_.Change([](api::NodePlan& plan) {
    plan.metadata.generation = 4;
    plan.spec.images = {{.reference = "r.test/a:1"}};
  });
  ASSERT_TRUE(Reconcile().ok());
  EXPECT_EQ(plan_.stored_.status.observed_generation, 4);
  ASSERT_EQ(plan_.stored_.status.images.size(), 1u);
  EXPECT_EQ(reconciler_.LastOutcome().observed_generation, 4);
}

TEST_F(PlanReconcilerTest, SpacesBurstsOfNews) {
  ASSERT_TRUE(Reconcile().ok());
  state_.driver = DriverState::kRegistered;
  EXPECT_EQ(*Reconcile()->requeue_after, seconds(1));
  EXPECT_EQ(plan_.writes_, 1);
  clock_.Advance(seconds(1));
  ASSERT_TRUE(Reconcile().ok());
  EXPECT_EQ(plan_.writes_, 2);
}

TEST_F(PlanReconcilerTest, DoesNotRepeatAWriteThatHasNotComeBackYet) {
  plan_.is_lagging_ = true;
  ASSERT_TRUE(Reconcile().ok());
  clock_.Advance(seconds(2));
  ASSERT_TRUE(Reconcile().ok());
  EXPECT_EQ(plan_.writes_, 1);
}

TEST_F(PlanReconcilerTest, WritesAgainWhenItsStatusWasWiped) {
  ASSERT_TRUE(Reconcile().ok());
  clock_.Advance(seconds(2));
  plan_.Change([](api::NodePlan& plan) { plan.status = {}; });
  ASSERT_TRUE(Reconcile().ok());
  EXPECT_EQ(plan_.writes_, 2);
  plan_.Change([](api::NodePlan& plan) {  // deleted and made anew
    plan.metadata.uid = "uid-2";
    plan.status = {};
  });
  ASSERT_TRUE(Reconcile().ok());
  EXPECT_EQ(plan_.writes_, 3);
}

TEST_F(PlanReconcilerTest, WaitsForAPlan) {
  plan_.failure_ = NotFoundError("NodePlan n1 is not there");
  Result<kube::Action> action = Reconcile();
  ASSERT_TRUE(action.ok());
  EXPECT_EQ(*action->requeue_after, minutes(5));
  ASSERT_TRUE(Reconcile().ok());
  EXPECT_EQ(log_.Count("no usable plan, waiting for one"), 1u) << "once, not each time: " << log_.Text();
  EXPECT_EQ(reconciler_.LastOutcome().status.code(), StatusCode::kNotFound);
  plan_.failure_ = Status();
  ASSERT_TRUE(Reconcile().ok());
  EXPECT_EQ(plan_.writes_, 1);
  EXPECT_EQ(reconciler_.LastOutcome().status, Status());
}

TEST_F(PlanReconcilerTest, ReturnsAFailedWriteToBeRetried) {
  plan_.write_failure_ = UnavailableError("no connection");
  EXPECT_EQ(Reconcile().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(reconciler_.LastOutcome().status.code(), StatusCode::kUnavailable);
  plan_.write_failure_ = Status();
  ASSERT_TRUE(Reconcile().ok());
  EXPECT_EQ(plan_.writes_, 1);
}

TEST(FilePlan, IsFollowedAndAnswered) {
  const std::string folder = MakeTemporaryFolder();
  RealFileSystem files;
  fakes::SimulatedClock clock;
  fakes::CaptureLog log;
  auto store = NewFilePlanStore("n1", folder + "/plan.yaml", folder + "/status.json", files);
  PlanReconciler reconciler(
      {.poll_interval = seconds(2)}, *store,
      [] {
        NodeState state;
        state.agent_version = "0.1.0";
        return state;
      },
      clock, log.logger());
  const auto reconcile = [&] { return reconciler.Reconcile({"", "n1"}, Deadline::Infinite(), {}); };

  EXPECT_EQ(*reconcile()->requeue_after, seconds(2)) << "a file that is not there yet is looked for";
  WriteTextFile(folder + "/plan.yaml", "spec:\n  images:\n  - {reference: \"r.test/a:1\"}\n");
  EXPECT_EQ(*reconcile()->requeue_after, seconds(2));
  Result<Json> status = ParseJson(ReadTextFile(folder + "/status.json"));
  ASSERT_TRUE(status.ok()) << status.status().ToString();
  EXPECT_EQ(*JsonString(*status, "kind"), "NodePlan");
  EXPECT_EQ(*JsonString(*status, "metadata.name"), "n1");
  EXPECT_EQ(*JsonInt(*status, "status.observedGeneration"), 1);
  EXPECT_EQ(*JsonString(*status, "status.images.0.state"), "Failed");

  clock.Advance(seconds(2));
  WriteTextFile(folder + "/plan.yaml", "spec: {}\n");
  ASSERT_TRUE(reconcile().ok());
  status = ParseJson(ReadTextFile(folder + "/status.json"));
  EXPECT_EQ(*JsonInt(*status, "status.observedGeneration"), 2);
  EXPECT_EQ(FindJson(*status, "status.images.0"), nullptr);

  WriteTextFile(folder + "/plan.yaml", "spec: {imges: []}\n");
  ASSERT_TRUE(reconcile().ok());
  EXPECT_THAT(reconciler.LastOutcome().status.message(), HasSubstr("imges"));
  std::filesystem::remove_all(folder);
}

TEST(ClusterPlan, IsReadFromTheCacheAndAppliedToTheServer) {
  fakes::SimulatedClock clock;
  fakes::CaptureLog log;
  fakes::ApiServer server(clock);
  server.AddResource(NodePlanResource());
  server.Put(NodePlanResource(), {{"apiVersion", "paceline.dev/v1alpha1"},
                                  {"kind", "NodePlan"},
                                  {"metadata", {{"name", "n1"}}},
                                  {"spec", {{"images", Json::array({{{"reference", "r.test/a:1"}}})}}}});
  auto transport = server.Connect();
  auto client = kube::NewRestClient(*transport, clock);
  kube::Store<kube::ObjectView> cache;
  const auto mirror = [&] {
    Result<kube::ObjectView> view = kube::ViewFromJson<kube::ObjectView>(*server.Find(NodePlanResource(), {"", "n1"}));
    ASSERT_TRUE(view.ok()) << view.status().ToString();
    cache.Set(std::make_shared<kube::ObjectView>(*std::move(view)));
  };
  auto store = NewClusterPlanStore("n1", cache, *client);
  EXPECT_EQ(store->Read().status().code(), StatusCode::kNotFound);
  mirror();

  NodeState state;
  state.agent_version = "0.1.0";
  state.pods.emplace_back().pod = {"team-a", "trainer-0", "uid-1"};
  state.pods[0].stages = {{"first_step", clock.WallNow()}};
  PlanReconciler reconciler(
      {}, *store, [&] { return state; }, clock, log.logger());
  ASSERT_TRUE(reconciler.Reconcile({"", "n1"}, Deadline::Infinite(), {}).ok());
  Json object = *server.Find(NodePlanResource(), {"", "n1"});
  EXPECT_EQ(*JsonString(object, "status.agentVersion"), "0.1.0");
  EXPECT_EQ(*JsonString(object, "status.images.0.reference"), "r.test/a:1");
  EXPECT_EQ(*JsonString(object, "status.pods.0.stages.0.name"), "first_step");
  EXPECT_EQ(*JsonString(object, "spec.images.0.reference"), "r.test/a:1") << "the operator's half is untouched";

  mirror();
  ASSERT_TRUE(reconciler.Reconcile({"", "n1"}, Deadline::Infinite(), {}).ok());
  EXPECT_EQ(reconciler.LastOutcome().writes, 1) << "what came back is what was said";

  clock.Advance(seconds(5));
  state.pods.clear();
  ASSERT_TRUE(reconciler.Reconcile({"", "n1"}, Deadline::Infinite(), {}).ok());
  object = *server.Find(NodePlanResource(), {"", "n1"});
  EXPECT_EQ(FindJson(object, "status.pods.0"), nullptr) << "what is not said any more goes";
}

}  // namespace
}  // namespace paceline::agent
