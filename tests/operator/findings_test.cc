#include "operator/straggler/findings.h"

#include <gtest/gtest.h>

namespace paceline::operator_ {
namespace {

using analysis::NodeState;
using analysis::NodeVerdict;

NodeVerdict Verdict(NodeState state, int communicators, double slowdown = 1.4) {
  NodeVerdict verdict;
  verdict.state = state;
  verdict.slowdown = slowdown;
  verdict.windows = verdict.windows_known = 5;
  verdict.windows_over = state == NodeState::kSlow ? 5 : 0;
  verdict.communicators = state == NodeState::kSlow ? communicators : 0;
  verdict.communicators_available = communicators;
  verdict.ranks = {2, 3};
  verdict.ranks_here = 2;
  return verdict;
}

TEST(Findings, RunsOnANodeSpeakTogether) {
  const NodeVerdict slow = Verdict(NodeState::kSlow, 1), healthy = Verdict(NodeState::kHealthy, 1);
  const NodeVerdict unknown = Verdict(NodeState::kUnknown, 0), suspect = Verdict(NodeState::kSuspect, 1);
  const struct {
    const char* name;
    std::vector<NodeVerdict> verdicts;
    int64_t minimum;
    NodeState state;
  } cases[] = {{"nobody", {}, 2, NodeState::kUnknown},
               {"nothing known", {unknown, unknown}, 2, NodeState::kUnknown},
               {"one run with one communicator is all there is", {slow}, 2, NodeState::kSlow},
               {"one that knows nothing does not count", {slow, unknown}, 2, NodeState::kSlow},
               {"two runs", {slow, slow}, 2, NodeState::kSlow},
               {"another run is not slow on it", {slow, healthy}, 2, NodeState::kSuspect},
               {"enough witnesses all the same", {Verdict(NodeState::kSlow, 2), healthy}, 2, NodeState::kSlow},
               {"one witness will do", {slow, healthy}, 1, NodeState::kSlow},
               {"healthy", {healthy, unknown}, 2, NodeState::kHealthy},
               {"suspect", {healthy, suspect}, 2, NodeState::kSuspect}};
  for (const auto& c : cases) EXPECT_EQ(Combine(c.verdicts, c.minimum).state, c.state) << c.name;
  const CombinedVerdict combined = Combine(
      {Verdict(NodeState::kHealthy, 1, 9), Verdict(NodeState::kSlow, 1, 1.2), Verdict(NodeState::kSlow, 1, 1.3)}, 2);
  EXPECT_EQ(combined.worst, 2u);
  EXPECT_EQ(combined.witnesses, 2);
  EXPECT_EQ(combined.available, 3);
}

TEST(Findings, TheIncidentHasTheNumbersAndWhatIsNotKnown) {
  const NodeVerdict slow = Verdict(NodeState::kSlow, 1);
  const api::IncidentStatus status =
      StragglerStatus("n1", slow, Combine({slow}, 2), {"llama-0-1"}, api::StragglerPolicySpec{});
  ASSERT_TRUE(status.verdict.has_value());
  EXPECT_NE(status.verdict->cause.find("1.40 times"), std::string::npos) << status.verdict->cause;
  EXPECT_EQ(status.verdict->nodes, std::vector<std::string>{"n1"});
  EXPECT_EQ(status.verdict->ranks, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(status.evidence[0].value, 1.4);
  EXPECT_EQ(status.not_visible.size(), 2u);
  EXPECT_LT(status.verdict->confidence, 0.9);
}

TEST(Findings, TheSameActionIsNotedOnce) {
  api::IncidentStatus status;
  EXPECT_TRUE(AddAction(status, {"Refused", "n1", std::nullopt, "Budget: 1 of 3"}));
  EXPECT_FALSE(AddAction(status, {"Refused", "n1", std::nullopt, "Budget: 2 of 3"}));
  EXPECT_TRUE(AddAction(status, {"Refused", "n1", std::nullopt, "Rate: 1 within 60 min"}));
  EXPECT_TRUE(AddAction(status, {"Cordon", "n1", std::nullopt, "Slow: done"}));
  for (int i = 0; i < 200; ++i) {
    AddAction(status, {i % 2 == 0 ? "Cordon" : "Release", "n1", std::nullopt, "x"});
  }
  EXPECT_EQ(status.actions.size(), 64u);
}

}  // namespace
}  // namespace paceline::operator_
