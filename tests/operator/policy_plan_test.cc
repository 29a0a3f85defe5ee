#include "operator/straggler/policy_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::operator_ {
namespace {

using namespace std::chrono_literals;
using analysis::NodeState;
using api::StragglerAction;
using testing::HasSubstr;

constexpr WallTime kStart{500'000h};

// Three nodes, n1 slow, and a policy that cordons.
class PolicyPlanTest : public testing::Test {
 public:
  PolicyPlanTest() {
    policy_.metadata.name = "p";
    policy_.metadata.generation = 4;
    policy_.spec.action = StragglerAction::kCordon;
    for (const char* name : {"n0", "n1", "n2"}) nodes_[name] = {name, true, "", "", false, false, std::nullopt};
    Blame("n1", 1.4);
  }

  void Blame(const std::string& node, double slowdown) {
    findings_[node] = {NodeState::kSlow, slowdown, "team/incident-" + node, ApprovalState::kNotNeeded};
  }

  // One pass; its status is the next one's.
  PolicyPlan Pass() {
    PolicyInput input{policy_, {}, findings_, is_reset_, now_};
    for (const auto& [name, node] : nodes_) input.nodes.push_back(node);
    PolicyPlan plan = PlanPolicy(input);
    policy_.status = plan.status;
    return plan;
  }
  // As the reconciler does.
  void Take(const PolicyPlan& plan) {
    for (const PolicyStep& step : plan.steps) {
      PolicyNode& node = nodes_.at(step.node);
      if (step.kind == StepKind::kAct) {
        node.mark = NodeMark{"p", step.action, step.incident, now_};
        node.has_taint = true;
        node.is_unschedulable = step.action == StragglerAction::kCordon;
      } else {
        if (step.kind == StepKind::kRelease) node.is_unschedulable = false;
        node.mark.reset();
        node.has_taint = false;
      }
    }
  }
  std::string RefusalOf(const PolicyPlan& plan, const std::string& node = "n1") {
    for (const Refusal& refusal : plan.refusals) {
      if (refusal.node == node) return refusal.reason;
    }
    return "";
  }
  void ExpectRefused(const char* reason) {
    const PolicyPlan plan = Pass();
    EXPECT_TRUE(plan.steps.empty()) << reason;
    EXPECT_EQ(RefusalOf(plan), reason);
    EXPECT_TRUE(plan.status.acted_nodes.empty()) << reason;
  }

  api::StragglerPolicy policy_;
  std::map<std::string, PolicyNode> nodes_;
  std::map<std::string, NodeFinding> findings_;
  bool is_reset_ = false;
  WallTime now_ = kStart;
};

TEST_F(PolicyPlanTest, SaysWhatItWillDoAndDoesItOnce) {
  const PolicyPlan plan = Pass();
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(plan.steps[0].kind, StepKind::kAct);
  EXPECT_EQ(plan.steps[0].node, "n1");
  EXPECT_EQ(plan.steps[0].action, StragglerAction::kCordon);
  EXPECT_EQ(plan.steps[0].incident, "team/incident-n1");
  ASSERT_EQ(plan.status.acted_nodes.size(), 1u);
  EXPECT_FALSE(plan.status.acted_nodes[0].is_applied);
  EXPECT_EQ(plan.status.recent_actions.size(), 1u);
  EXPECT_EQ(plan.status.last_action, kStart);
  EXPECT_EQ(plan.status.selected_nodes, 3);
  EXPECT_EQ(plan.status.observed_generation, 4);
  Take(plan);
  const PolicyPlan next = Pass();
  EXPECT_TRUE(next.steps.empty());
  EXPECT_TRUE(next.refusals.empty());
  ASSERT_EQ(next.status.acted_nodes.size(), 1u);
  EXPECT_TRUE(next.status.acted_nodes[0].is_applied);
}

TEST_F(PolicyPlanTest, OfAPolicyAsItComesNothingIsDone) {
  policy_.spec = {};
  ExpectRefused("ObserveOnly");
}

TEST_F(PolicyPlanTest, EachSafeguardHoldsItBack) {
  const struct {
    const char* reason;
    std::function<void(PolicyPlanTest&)> set;
  } cases[] = {
      {"Paused", [](auto& t) { t.policy_.spec.pause_requests = {"maintenance of the fabric"}; }},
      {"Excluded", [](auto& t) { t.nodes_["n1"].excluded = "it is a node of the control plane"; }},
      {"OtherWriter", [](auto& t) { t.nodes_["n1"].other_writer = "NVSentinel"; }},
      {"AlreadyCordoned", [](auto& t) { t.nodes_["n1"].is_unschedulable = true; }},
      {"OtherPolicy",
       [](auto& t) {
         t.nodes_["n1"].mark = NodeMark{"q", StragglerAction::kTaint, "", kStart};
       }},
      {"Vetoed",
       [](auto& t) {
         t.policy_.status.vetoes = {{"n1", kStart + 1h}};
       }},
      {"CoolDown",
       [](auto& t) {
         t.policy_.status.recent_actions = {{"n1", StragglerAction::kCordon, kStart - 5h}};
       }},
      {"Budget", [](auto& t) { t.nodes_["n2"].is_unschedulable = true; }},
      {"Budget", [](auto& t) { t.policy_.spec.budget.max_nodes = "0"; }},
      {"Rate",
       [](auto& t) {
         t.policy_.status.recent_actions = {{"n2", StragglerAction::kCordon, kStart - 59min}};
       }},
      {"Rate", [](auto& t) { t.policy_.spec.budget.max_actions = 0; }},
      {"WaitingForApproval", [](auto& t) { t.findings_["n1"].approval = ApprovalState::kWaiting; }},
      {"ApprovalExpired", [](auto& t) { t.findings_["n1"].approval = ApprovalState::kExpired; }},
  };
  const std::map<std::string, PolicyNode> nodes = nodes_;
  const std::map<std::string, NodeFinding> findings = findings_;
  const api::StragglerPolicy policy = policy_;
  for (const auto& c : cases) {
    nodes_ = nodes;
    findings_ = findings;
    policy_ = policy;
    c.set(*this);
    ExpectRefused(c.reason);
    const auto is_known = std::find(kRefusalReasons.begin(), kRefusalReasons.end(), c.reason);
    EXPECT_NE(is_known, kRefusalReasons.end()) << c.reason;
  }
}

TEST_F(PolicyPlanTest, WhatHasPassedNoLongerHoldsItBack) {
  policy_.status.vetoes = {{"n1", kStart - 1s}};
  policy_.status.recent_actions = {{"n1", StragglerAction::kCordon, kStart - 7h}};
  findings_["n1"].approval = ApprovalState::kGiven;
  const PolicyPlan plan = Pass();
  EXPECT_EQ(plan.steps.size(), 1u);
  EXPECT_TRUE(plan.status.vetoes.empty());
  EXPECT_EQ(plan.status.recent_actions.size(), 1u) << "the old one is forgotten";
}

TEST_F(PolicyPlanTest, UnknownAndSuspectNodesAreLeftAlone) {
  for (const NodeState state : {NodeState::kUnknown, NodeState::kSuspect, NodeState::kHealthy}) {
    findings_["n1"].state = state;
    const PolicyPlan plan = Pass();
    EXPECT_TRUE(plan.steps.empty());
    EXPECT_TRUE(plan.refusals.empty());
  }
  Blame("n1", 1.4);
  nodes_["n1"].is_selected = false;
  EXPECT_TRUE(Pass().steps.empty());
  nodes_.erase("n1");
  EXPECT_TRUE(Pass().steps.empty());
}

TEST_F(PolicyPlanTest, APersonsUncordonIsAVetoWithMemory) {
  Take(Pass());
  Pass();
  nodes_["n1"].is_unschedulable = false;  // kubectl uncordon
  const PolicyPlan plan = Pass();
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(plan.steps[0].kind, StepKind::kClear);
  EXPECT_TRUE(plan.status.acted_nodes.empty());
  ASSERT_EQ(plan.status.vetoes.size(), 1u);
  EXPECT_EQ(plan.status.vetoes[0].until, kStart + 24h);
  Take(plan);
  EXPECT_FALSE(nodes_["n1"].is_unschedulable);
  now_ = kStart + 23h;
  ExpectRefused("Vetoed");
  now_ = kStart + 25h;
  EXPECT_EQ(Pass().steps.size(), 1u);
}

TEST_F(PolicyPlanTest, SoIsTakingAwayTaintOrMark) {
  for (const bool whole : {false, true}) {
    policy_.status = {};
    policy_.spec.action = StragglerAction::kTaint;
    now_ += 48h;
    Take(Pass());
    Pass();
    nodes_["n1"].has_taint = false;
    if (whole) nodes_["n1"].mark.reset();
    const PolicyPlan plan = Pass();
    EXPECT_EQ(plan.steps.size(), whole ? 0u : 1u);
    EXPECT_EQ(plan.status.vetoes.size(), 1u);
    EXPECT_EQ(RefusalOf(plan), "Vetoed");
    Take(plan);
  }
}

TEST_F(PolicyPlanTest, AnIntentIsCarriedOutAfterARestart) {
  Pass();  // written, and killed before the node was changed
  now_ += 30s;
  PolicyPlan plan = Pass();
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(plan.steps[0].kind, StepKind::kAct);
  EXPECT_EQ(plan.status.recent_actions.size(), 1u) << "it counts once";
  // An operator that has just begun knows nothing yet.
  findings_.clear();
  plan = Pass();
  EXPECT_TRUE(plan.steps.empty());
  EXPECT_EQ(plan.status.acted_nodes.size(), 1u);
  Blame("n1", 1.4);
  EXPECT_EQ(Pass().steps.size(), 1u);
  // The policy may say another thing by now.
  policy_.spec.action = StragglerAction::kTaint;
  plan = Pass();
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(plan.steps[0].action, StragglerAction::kTaint);
  // Not when the node is fine meanwhile.
  findings_["n1"].state = NodeState::kHealthy;
  plan = Pass();
  EXPECT_TRUE(plan.steps.empty());
  EXPECT_TRUE(plan.status.acted_nodes.empty());
}

TEST_F(PolicyPlanTest, AnIntentDoesNotWaitForever) {
  Pass();
  findings_.clear();
  now_ += 6min;
  const PolicyPlan plan = Pass();
  EXPECT_TRUE(plan.steps.empty());
  EXPECT_TRUE(plan.status.acted_nodes.empty());
}

TEST_F(PolicyPlanTest, AnIntentIsCheckedAgain) {
  Pass();
  policy_.spec.pause_requests = {"wait"};
  now_ += 30s;
  ExpectRefused("Paused");
}

TEST_F(PolicyPlanTest, WhatStandsOnTheNodeIsTakenOverWhenTheStatusIsLost) {
  Take(Pass());
  policy_.status = {};
  const PolicyPlan plan = Pass();
  EXPECT_TRUE(plan.steps.empty());
  ASSERT_EQ(plan.status.acted_nodes.size(), 1u);
  EXPECT_EQ(plan.status.acted_nodes[0].node, "n1");
  EXPECT_EQ(plan.status.acted_nodes[0].incident, "team/incident-n1");
}

TEST_F(PolicyPlanTest, ANodeIsPutBackWhenItWasSeenHealthyForLong) {
  Take(Pass());
  Pass();
  findings_["n1"].state = NodeState::kHealthy;
  EXPECT_TRUE(Pass().steps.empty());
  now_ += 20min;
  findings_["n1"].state = NodeState::kUnknown;  // not known is not healthy
  EXPECT_TRUE(Pass().steps.empty());
  findings_["n1"].state = NodeState::kHealthy;
  now_ += 20min;
  EXPECT_TRUE(Pass().steps.empty());
  now_ += 29min;
  EXPECT_TRUE(Pass().steps.empty());
  now_ += 1min;
  const PolicyPlan plan = Pass();
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(plan.steps[0].kind, StepKind::kRelease);
  EXPECT_EQ(plan.steps[0].reason, "Recovered");
  EXPECT_TRUE(plan.status.acted_nodes.empty());
  Take(plan);
  Blame("n1", 1.4);
  ExpectRefused("CoolDown");
}

TEST_F(PolicyPlanTest, OrByAPersonOnlyIfThePolicySaysSo) {
  policy_.spec.recovery_period = 0s;
  Take(Pass());
  findings_["n1"].state = NodeState::kHealthy;
  Pass();
  now_ += 100h;
  EXPECT_TRUE(Pass().steps.empty());
}

TEST_F(PolicyPlanTest, TheBreakerTripsStaysAndForgetsWhatWasFound) {
  policy_.spec.budget.breaker_nodes = "20%";
  Blame("n2", 1.5);
  PolicyPlan plan = Pass();
  EXPECT_TRUE(plan.steps.empty());
  EXPECT_EQ(RefusalOf(plan), "BreakerTripped");
  EXPECT_TRUE(api::IsConditionTrue(plan.status.conditions, kBreakerCondition));
  // It stays when there is one only.
  findings_.erase("n2");
  now_ += 2h;
  ExpectRefused("BreakerTripped");
  is_reset_ = true;
  plan = Pass();
  EXPECT_TRUE(plan.steps.empty()) << "what was found is of before";
  EXPECT_FALSE(api::IsConditionTrue(plan.status.conditions, kBreakerCondition));
  EXPECT_EQ(plan.status.evidence_since, now_);
  is_reset_ = false;
  EXPECT_EQ(Pass().steps.size(), 1u);
}

TEST_F(PolicyPlanTest, TheBreakerDoesNotKeepANodeOut) {
  Take(Pass());
  Pass();
  findings_["n1"].state = NodeState::kHealthy;
  Blame("n0", 1.5);
  Blame("n2", 1.5);
  EXPECT_TRUE(api::IsConditionTrue(Pass().status.conditions, kBreakerCondition));
  policy_.spec.pause_requests = {"as well"};
  now_ += 31min;
  const PolicyPlan plan = Pass();
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(plan.steps[0].kind, StepKind::kRelease);
}

TEST_F(PolicyPlanTest, TakesTheWorstFirstWithinBudgetAndRate) {
  policy_.spec.budget.breaker_nodes = "100%";
  policy_.spec.budget.max_nodes = "2";
  policy_.spec.budget.max_actions = 5;
  Blame("n0", 1.2);
  Blame("n2", 1.8);
  const PolicyPlan plan = Pass();
  ASSERT_EQ(plan.steps.size(), 2u);
  EXPECT_EQ(plan.steps[0].node, "n2");
  EXPECT_EQ(plan.steps[1].node, "n1");
  EXPECT_EQ(RefusalOf(plan, "n0"), "Budget");
}

TEST_F(PolicyPlanTest, JobsRestartOnceTheirNodeIsOutAndOnlyWhileItIsSlow) {
  EXPECT_TRUE(Pass().restarts.empty()) << "nobody has asked for it";
  policy_.spec.restart_job = true;
  const PolicyPlan first = Pass();
  EXPECT_TRUE(first.restarts.empty()) << "the node takes pods still";
  Take(first);
  now_ += 30s;
  const PolicyPlan out = Pass();
  ASSERT_EQ(out.restarts.size(), 1u);
  EXPECT_EQ(out.restarts[0].node, "n1");
  EXPECT_EQ(out.restarts[0].incident, "team/incident-n1");
  EXPECT_EQ(out.restarts[0].out_since, kStart);
  policy_.spec.pause_requests = {"maintenance"};
  EXPECT_TRUE(Pass().restarts.empty());
  policy_.spec.pause_requests.clear();
  for (const NodeState state : {NodeState::kHealthy, NodeState::kSuspect, NodeState::kUnknown}) {
    findings_["n1"].state = state;
    EXPECT_TRUE(Pass().restarts.empty());
  }
  for (const char* name : {"n0", "n1", "n2"}) Blame(name, 1.4);
  EXPECT_TRUE(Pass().restarts.empty()) << "the breaker has tripped";
}

TEST_F(PolicyPlanTest, SaysWhatItCannotDo) {
  policy_.spec.detection.windows = 100;
  Pass();
  const api::Condition* ready = api::FindCondition(policy_.status.conditions, kReadyCondition);
  ASSERT_NE(ready, nullptr);
  EXPECT_EQ(ready->status, api::ConditionStatus::kFalse);
  EXPECT_EQ(ready->reason, "DetectionTooLong");
}

TEST(CountOf, ReadsCountsAndPercentages) {
  const struct {
    const char* text;
    int64_t nodes, count;
  } cases[] = {{"0", 10, 0},   {"3", 10, 3},  {"20%", 3, 1},   {"20%", 10, 2}, {"25%", 10, 2},
               {"100%", 7, 7}, {"0%", 10, 0}, {"1%", 10, 1},   {"", 10, 0},    {"x", 10, 0},
               {"-1", 10, 0},  {"5x", 10, 0}, {"101%", 10, 0}, {"10%%", 9, 0}, {"20%", 1000, 200}};
  for (const auto& c : cases) EXPECT_EQ(CountOf(c.text, c.nodes), c.count) << c.text;
}

}  // namespace
}  // namespace paceline::operator_
