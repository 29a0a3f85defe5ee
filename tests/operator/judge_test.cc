#include "operator/incident/judge.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/api/codec.h"

namespace paceline::operator_ {
namespace {

using analysis::Category;
using analysis::ProcessState;
using api::TriggerKind;
using std::chrono::seconds;

analysis::Verdict VerdictOf(Category category) {
  analysis::Verdict verdict;
  verdict.category = category;
  verdict.cause = "because";
  verdict.culprits = {{3, "n1", "llama-3"}};
  return verdict;
}

analysis::Tables TablesWith(ProcessState state, std::optional<double> io = std::nullopt) {
  analysis::ProcessView process;
  process.node = "n1";
  process.host = "llama-3";
  process.world_rank = 3;
  process.state = state;
  process.io_bytes_per_second = io;
  return {{process}, {}};
}

TEST(Judge, TellsAnIncidentFromAPause) {
  const struct {
    const char* name;
    Category category;
    TriggerKind trigger;
    ProcessState state;
    std::optional<double> io;
    int lasted_s;
    bool is_incident;
  } cases[] = {
      {"all ranks at one place", Category::kNone, TriggerKind::kStall, ProcessState::kRunning, {}, 600, false},
      {"a short pause of one rank", Category::kNotLaunched, TriggerKind::kStall, ProcessState::kRunning, {}, 29, false},
      {"a long one", Category::kNotLaunched, TriggerKind::kStall, ProcessState::kRunning, {}, 31, true},
      {"a checkpoint", Category::kNotLaunched, TriggerKind::kStall, ProcessState::kRunning, 5e8, 600, false},
      {"a trickle is none", Category::kHostStuck, TriggerKind::kStall, ProcessState::kRunning, 1e3, 31, true},
      {"a stopped process", Category::kNotLaunched, TriggerKind::kStall, ProcessState::kStopped, {}, 0, true},
      {"a dead one", Category::kProcessLost, TriggerKind::kProcessLost, ProcessState::kDead, {}, 0, true},
      {"a slow network", Category::kNetwork, TriggerKind::kStall, ProcessState::kRunning, {}, 0, true},
      {"not known yet", Category::kUnknown, TriggerKind::kStall, ProcessState::kRunning, {}, 9, false},
      {"not known", Category::kUnknown, TriggerKind::kStall, ProcessState::kRunning, {}, 11, true},
      {"slow for a moment", Category::kNetwork, TriggerKind::kSlowdown, ProcessState::kRunning, {}, 29, false},
      {"slow", Category::kNone, TriggerKind::kSlowdown, ProcessState::kRunning, {}, 31, true},
  };
  for (const auto& c : cases) {
    const Judgement judgement =
        Judge(VerdictOf(c.category), TablesWith(c.state, c.io), c.trigger, seconds(c.lasted_s), {});
    EXPECT_EQ(judgement.is_incident, c.is_incident) << c.name;
    EXPECT_EQ(judgement.why_not.empty(), c.is_incident) << c.name;
  }
}

TEST(Judge, ARankOfWhichNothingIsSeenIsNoPause) {
  EXPECT_TRUE(Judge(VerdictOf(Category::kNotLaunched), {}, TriggerKind::kStall, seconds(0), {}).is_incident);
}

TEST(FirstTrigger, IsTheEarliestAndALossBeforeAllElse) {
  const WallTime t = *ParseRfc3339("2026-01-02T03:04:05Z");
  EXPECT_FALSE(FirstTrigger({}).has_value());
  EXPECT_FALSE(FirstTrigger({{"n1", {4, {}}}}).has_value());
  std::map<std::string, TraceReport> reports;
  reports["n1"].alerts = {{TriggerKind::kStall, t + seconds(2), 1, "late"}};
  reports["n2"].alerts = {{TriggerKind::kStall, t + seconds(1), 2, "early"},
                          {TriggerKind::kStall, std::nullopt, 2, ""}};
  reports["n3"].alerts = {{TriggerKind::kStall, t + seconds(1), 3, "as early"}};
  EXPECT_EQ(FirstTrigger(reports)->node, "n2");
  EXPECT_EQ(FirstTrigger(reports)->detail, "early");
  reports["n3"].alerts.push_back({TriggerKind::kProcessLost, t + seconds(9), 3, "gone"});
  EXPECT_EQ(FirstTrigger(reports)->kind, TriggerKind::kProcessLost);
  EXPECT_EQ(FirstTrigger(reports)->node, "n3");
}

TEST(StatusOf, HasTheSameClassesAsTheAnalysis) {
  for (int i = static_cast<int>(Category::kUnknown); i <= static_cast<int>(Category::kDeadlock); ++i) {
    api::Incident incident;
    incident.status = StatusOf(VerdictOf(static_cast<Category>(i)), [](const auto&) { return "pod"; });
    EXPECT_EQ(api::ToJson(incident)["status"]["verdict"]["category"], analysis::CategoryName(static_cast<Category>(i)));
  }
}

TEST(StatusOf, NamesRanksPodsAndNodesOnce) {
  analysis::Verdict verdict = VerdictOf(Category::kNetwork);
  verdict.culprits = {{3, "n1", "a"}, {4, "n1", "b"}, {-1, "", ""}};
  verdict.edge = analysis::VerdictEdge{3, 4, 0};
  const api::IncidentStatus status = StatusOf(
      verdict, [](const analysis::Culprit& culprit) { return culprit.host.empty() ? "" : "pod-" + culprit.host; });
  EXPECT_EQ(status.verdict->ranks, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(status.verdict->nodes, std::vector<std::string>{"n1"});
  EXPECT_EQ(status.verdict->pods, (std::vector<std::string>{"pod-a", "pod-b"}));
  EXPECT_EQ(status.verdict->edge->to_rank, 4);
}

}  // namespace
}  // namespace paceline::operator_
