#include "agent/plan/node_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::agent {
namespace {

using ::testing::HasSubstr;

const WallTime kNow = *ParseRfc3339("2026-01-02T03:04:05Z");

NodeState SampleState() {
  NodeState state;
  state.agent_version = "0.1.0";
  state.facts.kernel_release = "6.18.0";
  state.facts.erofs = {Support::kYes, ""};
  state.facts.fuse = {Support::kNo, "no /dev/fuse"};
  state.facts.containerd_version = "v2.4.2";
  state.driver = DriverState::kRegistered;
  return state;
}

api::NodePlan SamplePlan() {
  api::NodePlan plan;
  plan.metadata.name = "n1";
  plan.metadata.generation = 7;
  return plan;
}

const api::Condition& Find(const api::NodePlanStatus& status, std::string_view type) {
  const api::Condition* condition = api::FindCondition(status.conditions, type);
  EXPECT_NE(condition, nullptr) << type;
  return *condition;
}

TEST(NodeStatus, ReportsFacts) {
  const api::NodePlanStatus status = BuildStatus(SamplePlan(), SampleState(), kNow);
  EXPECT_EQ(status.agent_version, "0.1.0");
  EXPECT_EQ(status.observed_generation, 7);
  EXPECT_EQ(status.heartbeat, kNow);
  ASSERT_TRUE(status.facts.has_value());
  EXPECT_EQ(status.facts->kernel, "6.18.0");
  EXPECT_EQ(status.facts->erofs, true);
  EXPECT_EQ(status.facts->fuse, false);
  EXPECT_EQ(status.facts->erofs_file_backed, std::nullopt) << "unknown is not no";
  EXPECT_EQ(status.facts->containerd, "v2.4.2");
  EXPECT_EQ(status.facts->nvidia_driver, "") << "none is absent";
  EXPECT_EQ(status.facts->gpus, 0);
}

TEST(NodeStatus, SaysWhatItCannotDo) {
  api::NodePlan plan = SamplePlan();
  api::NodePlanStatus idle = BuildStatus(plan, SampleState(), kNow);
  EXPECT_EQ(Find(idle, kImagesWarmCondition).status, api::ConditionStatus::kTrue);
  EXPECT_EQ(Find(idle, kTracingCondition).status, api::ConditionStatus::kTrue);

  plan.spec.images = {{.reference = "r.test/a:1"}, {.reference = "r.test/b:1"}};
  plan.spec.jobs = {{.ns = "x", .name = "j", .uid = "u", .traced = true}};
  const api::NodePlanStatus status = BuildStatus(plan, SampleState(), kNow);
  ASSERT_EQ(status.images.size(), 2u);
  EXPECT_EQ(status.images[0].reference, "r.test/a:1");
  EXPECT_EQ(status.images[0].state, api::ImageState::kFailed);
  EXPECT_THAT(status.images[0].message, HasSubstr("cannot warm images"));
  EXPECT_EQ(Find(status, kImagesWarmCondition).reason, "NotSupported");
}

TEST(NodeStatus, TellsWhatTheTracesShow) {
  api::NodePlan plan = SamplePlan();
  plan.spec.jobs = {{.ns = "x", .name = "j", .uid = "u", .run = "j-1", .traced = true}};
  NodeState state = SampleState();
  state.address = "10.0.0.7:9464";
  EXPECT_EQ(Find(BuildStatus(plan, state, kNow), kTracingCondition).reason, "NoTraces");
  state.traces = {{"x/j-1", 8, {{TraceTriggerKind::kProcessLost, "x/j-1", kNow, 3, std::string(2000, 'd')}}},
                  {"outside", 1, {}}};
  const api::NodePlanStatus status = BuildStatus(plan, state, kNow);
  EXPECT_EQ(Find(status, kTracingCondition).reason, "Collecting");
  EXPECT_EQ(status.agent_address, "10.0.0.7:9464");
  ASSERT_EQ(status.traces.size(), 2u);
  EXPECT_EQ(status.traces[0].ns, "x");
  EXPECT_EQ(status.traces[0].run, "j-1");
  EXPECT_EQ(status.traces[0].processes, 8);
  ASSERT_EQ(status.traces[0].alerts.size(), 1u);
  EXPECT_EQ(status.traces[0].alerts[0].kind, api::TriggerKind::kProcessLost);
  EXPECT_EQ(status.traces[0].alerts[0].rank, 3);
  EXPECT_EQ(status.traces[0].alerts[0].detail.size(), api::kMaxAlertDetailBytes);
  EXPECT_EQ(status.traces[1].ns, "");
  EXPECT_EQ(status.traces[1].run, "outside");
  state.pods.emplace_back().pod = {"x", "j-1-0", "uid-1"};
  state.pods.back().stages = {{"first_step", kNow}};
  state.traced_stages["uid-1"] = {kNow, std::nullopt};
  const std::vector<api::PodReport> pods = BuildStatus(plan, state, kNow).pods;
  ASSERT_EQ(pods[0].stages.size(), 2u);
  EXPECT_FALSE(pods[0].stages[0].is_traced);
  EXPECT_EQ(pods[0].stages[1].name, "communicator_ready");
  EXPECT_TRUE(pods[0].stages[1].is_traced);
  state.traces[0].open.clear();
  EXPECT_FALSE(IsSameReport(status, BuildStatus(plan, state, kNow))) << "that it is over is news";
}

TEST(NodeStatus, TellsWhereTheDriverStands) {
  const struct {
    DriverState driver;
    api::ConditionStatus status;
    const char* reason;
  } cases[] = {{DriverState::kNotServed, api::ConditionStatus::kFalse, "NotServed"},
               {DriverState::kUnregistered, api::ConditionStatus::kFalse, "NotRegistered"},
               {DriverState::kRegistered, api::ConditionStatus::kTrue, "Registered"}};
  for (const auto& c : cases) {
    NodeState state = SampleState();
    state.driver = c.driver;
    const api::NodePlanStatus status = BuildStatus(SamplePlan(), state, kNow);
    EXPECT_EQ(Find(status, kDriverRegisteredCondition).status, c.status) << c.reason;
    EXPECT_EQ(Find(status, kDriverRegisteredCondition).reason, c.reason);
  }
}

TEST(NodeStatus, KeepsTheTimesOfConditionsThatStay) {
  api::NodePlan plan = SamplePlan();
  plan.status = BuildStatus(plan, SampleState(), kNow);
  NodeState state = SampleState();
  state.driver = DriverState::kUnregistered;
  const WallTime later = kNow + std::chrono::hours(1);
  const api::NodePlanStatus status = BuildStatus(plan, state, later);
  EXPECT_EQ(Find(status, kDriverRegisteredCondition).last_transition_time, later);
  EXPECT_EQ(Find(status, kTracingCondition).last_transition_time, kNow);
}

TEST(NodeStatus, ReportsTheNewestPods) {
  NodeState state = SampleState();
  for (size_t i = 0; i < api::kMaxPodReports + 2; ++i) {
    PodReport& report = state.pods.emplace_back();
    report.pod = {"team-a", "pod", "uid-" + std::to_string(i)};
    report.volume_published_at = kNow;
    report.stages = {{"first_step", kNow}};
  }
  const api::NodePlanStatus status = BuildStatus(SamplePlan(), state, kNow);
  ASSERT_EQ(status.pods.size(), api::kMaxPodReports);
  EXPECT_EQ(status.pods[0].uid, "uid-2");
  EXPECT_EQ(status.pods[0].volume_published_at, kNow);
  ASSERT_EQ(status.pods[0].stages.size(), 1u);
  EXPECT_EQ(status.pods[0].stages[0].at, kNow);
}

TEST(NodeStatus, ComparesWithoutTheHeartbeat) {
  api::NodePlan plan = SamplePlan();
  const api::NodePlanStatus first = BuildStatus(plan, SampleState(), kNow);
  plan.status = first;
  EXPECT_TRUE(IsSameReport(first, BuildStatus(plan, SampleState(), kNow + std::chrono::minutes(4))));
  NodeState changed = SampleState();
  changed.facts.containerd_version = "v2.5.0";
  EXPECT_FALSE(IsSameReport(first, BuildStatus(plan, changed, kNow)));
  plan.metadata.generation = 8;
  EXPECT_FALSE(IsSameReport(first, BuildStatus(plan, SampleState(), kNow)));
}

}  // namespace
}  // namespace paceline::agent
