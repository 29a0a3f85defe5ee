// What a StragglerPolicy does about probes of nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/straggler/policy_plan.h"

namespace paceline::operator_ {
namespace {

using namespace std::chrono_literals;
using analysis::NodeState;
using api::ProbeVerdict;
using api::StragglerAction;

constexpr WallTime kBegin{500'000h};

// Node n1 is out since kBegin, for policy p that probes; n0 and n2 are idle and were probed a while ago.
class PolicyProbeTest : public testing::Test {
 public:
  PolicyProbeTest() {
    policy_.metadata.name = "p";
    policy_.spec.action = StragglerAction::kCordon;
    policy_.spec.probe.enabled = true;
    policy_.spec.probe.put_back_after_pass = true;
    for (const char* name : {"n0", "n1", "n2"}) {
      PolicyNode& node = nodes_[name];
      node.name = name;
      node.is_selected = true;
      node.probe = NodeProbe{4, 4, kBegin - 1h, false, false, true, ProbeVerdict::kUnknown};
    }
    PolicyNode& out = nodes_["n1"];
    out.mark = NodeMark{"p", StragglerAction::kCordon, "team/incident", kBegin};
    out.has_taint = out.is_unschedulable = true;
    api::ActedNode acted;
    acted.node = "n1";
    acted.action = StragglerAction::kCordon;
    acted.incident = "team/incident";
    acted.since = kBegin;
    acted.is_applied = true;
    policy_.status.acted_nodes = {acted};
  }

  PolicyPlan Pass() {
    PolicyInput input{policy_, {}, findings_, false, now_};
    for (const auto& [name, node] : nodes_) input.nodes.push_back(node);
    PolicyPlan plan = PlanPolicy(input);
    policy_.status = plan.status;
    return plan;
  }
  NodeProbe& Out() { return *nodes_["n1"].probe; }
  const api::ActedNode& Acted() { return policy_.status.acted_nodes.at(0); }
  // As the agent does.
  void Answer(ProbeVerdict verdict) {
    Out().asked = Out().done = Acted().probe_round;
    Out().verdict = verdict;
  }
  static std::vector<std::string> Ordered(const PolicyPlan& plan) {
    std::vector<std::string> orders;
    for (const ProbeOrder& order : plan.probes) orders.push_back(order.node + " " + std::to_string(order.round));
    return orders;
  }

  api::StragglerPolicy policy_;
  std::map<std::string, PolicyNode> nodes_;
  std::map<std::string, NodeFinding> findings_;
  WallTime now_ = kBegin + 1min;
};

using Orders = std::vector<std::string>;

TEST_F(PolicyProbeTest, AsksOnceThePodsHaveLeftAndUntilItIsDone) {
  Out().has_pods = true;
  EXPECT_EQ(Ordered(Pass()), Orders{});
  EXPECT_EQ(Acted().probe, ProbeVerdict::kPending);
  EXPECT_EQ(Acted().probe_round, 0);
  Out().has_pods = false;
  Out().asked = 6;  // a person has asked meanwhile
  EXPECT_EQ(Ordered(Pass()), Orders{"n1 7"});
  EXPECT_EQ(Ordered(Pass()), Orders{"n1 7"}) << "killed before it was written to the plan: asked for again";
  Out().asked = 7;
  Out().done = 6;
  Out().verdict = ProbeVerdict::kPassed;  // of round 6
  const PolicyPlan plan = Pass();
  EXPECT_EQ(Ordered(plan), Orders{"n1 7"});
  EXPECT_TRUE(plan.steps.empty());
  EXPECT_EQ(Acted().probe, ProbeVerdict::kPending) << "what was measured before does not count";
  Answer(ProbeVerdict::kFailed);
  EXPECT_EQ(Ordered(Pass()), Orders{});
  EXPECT_EQ(Acted().probe, ProbeVerdict::kFailed);
  EXPECT_EQ(Acted().probed_at, now_);
}

TEST_F(PolicyProbeTest, AFailedNodeStaysAndIsProbedAgain) {
  Pass();
  Answer(ProbeVerdict::kFailed);
  Pass();
  now_ += 59min;
  EXPECT_EQ(Ordered(Pass()), Orders{});
  now_ += 1min;
  EXPECT_EQ(Ordered(Pass()), Orders{"n1 6"});
  EXPECT_EQ(Acted().probe, ProbeVerdict::kFailed) << "until there is another word";
  Answer(ProbeVerdict::kFailed);
  now_ += 100h;
  const PolicyPlan plan = Pass();
  EXPECT_TRUE(plan.steps.empty());
  EXPECT_EQ(Acted().node, "n1");
}

TEST_F(PolicyProbeTest, ANodeThatPassesComesBackAfterTheCoolDown) {
  Pass();
  Answer(ProbeVerdict::kPassed);
  EXPECT_TRUE(Pass().steps.empty());
  now_ = kBegin + 5h + 59min;
  Pass();  // the hourly one is asked for
  EXPECT_TRUE(Pass().steps.empty());
  Answer(ProbeVerdict::kPassed);
  EXPECT_TRUE(Pass().steps.empty()) << "the cool-down is 6 h";
  now_ += 1min;
  const PolicyPlan plan = Pass();
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(plan.steps[0].kind, StepKind::kRelease);
  EXPECT_EQ(plan.steps[0].reason, "ProbePassed");
  EXPECT_EQ(plan.steps[0].incident, "team/incident");
  EXPECT_TRUE(plan.status.acted_nodes.empty());
  ASSERT_EQ(plan.status.put_back_by_probe.size(), 1u);
  EXPECT_EQ(plan.status.put_back_by_probe[0].until, now_ + 24h);
  EXPECT_TRUE(plan.status.vetoes.empty());
}

TEST_F(PolicyProbeTest, NothingElsePutsItBack) {
  const struct {
    const char* name;
    std::function<void(PolicyProbeTest&)> set;
  } cases[] = {{"it is not known", [](auto& t) { t.Out().verdict = ProbeVerdict::kUnknown; }},
               {"it has failed", [](auto& t) { t.Out().verdict = ProbeVerdict::kFailed; }},
               {"the policy does not want it", [](auto& t) { t.policy_.spec.probe.put_back_after_pass = false; }},
               {"probes were turned off", [](auto& t) { t.policy_.spec.probe.enabled = false; }},
               {"its plan is gone", [](auto& t) { t.nodes_["n1"].probe.reset(); }},
               {"another round is asked for", [](auto& t) { t.policy_.status.acted_nodes[0].probe_round += 1; }},
               {"somebody trains there", [](auto& t) { t.Out().has_pods = true; }},
               {"a probe has put it back lately", [](auto& t) {
                  t.policy_.status.put_back_by_probe = {{"n1", kBegin + 100h}};
                }}};
  now_ = kBegin + 7h;
  Pass();
  Answer(ProbeVerdict::kPassed);
  const auto nodes = nodes_;
  const auto policy = policy_;
  ASSERT_EQ(Pass().steps.size(), 1u);
  for (const auto& c : cases) {
    nodes_ = nodes;
    policy_ = policy;
    c.set(*this);
    EXPECT_TRUE(Pass().steps.empty()) << c.name;
    EXPECT_EQ(policy_.status.acted_nodes.size(), 1u) << c.name;
  }
}

TEST_F(PolicyProbeTest, APersonsWishStandsAboveAProbe) {
  now_ = kBegin + 7h;
  Pass();
  Answer(ProbeVerdict::kPassed);
  nodes_["n1"].is_unschedulable = false;  // kubectl uncordon
  const PolicyPlan plan = Pass();
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(plan.steps[0].kind, StepKind::kClear);
  EXPECT_EQ(plan.status.vetoes.size(), 1u);
  // A foreign cordon is nothing that a probe could lift.
  nodes_["n1"].mark.reset();
  nodes_["n1"].has_taint = false;
  nodes_["n1"].is_unschedulable = true;
  EXPECT_TRUE(Pass().steps.empty());
}

TEST_F(PolicyProbeTest, AFailedProbeKeepsOutWhatItsJobFindsHealthy) {
  Pass();
  Answer(ProbeVerdict::kFailed);
  findings_["n1"].state = NodeState::kHealthy;
  Pass();
  now_ += 31min;
  EXPECT_TRUE(Pass().steps.empty());
  Out().verdict = ProbeVerdict::kUnknown;  // and what is not known keeps nothing out
  const PolicyPlan plan = Pass();
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(plan.steps[0].reason, "Recovered");
}

TEST_F(PolicyProbeTest, AStatusThatWasLostAsksAnew) {
  Pass();
  Answer(ProbeVerdict::kPassed);
  Pass();
  policy_.status = {};
  now_ = kBegin + 7h;
  const PolicyPlan plan = Pass();
  EXPECT_TRUE(plan.steps.empty());
  EXPECT_EQ(Ordered(plan), Orders{"n1 6"});
}

TEST_F(PolicyProbeTest, IdleNodesAreProbedOneAfterTheOtherToCompareWith) {
  policy_.status.acted_nodes.clear();
  nodes_["n1"].mark.reset();
  nodes_["n1"].has_taint = nodes_["n1"].is_unschedulable = false;
  EXPECT_EQ(Ordered(Pass()), Orders{}) << "all are fresh";
  for (auto& [name, node] : nodes_) node.probe = NodeProbe{};
  EXPECT_EQ(Ordered(Pass()), Orders{"n0 1"});
  nodes_["n0"].probe->asked = 1;
  nodes_["n0"].probe->is_answering = true;
  EXPECT_EQ(Ordered(Pass()), Orders{}) << "one at a time";
  nodes_["n0"].probe->done = 1;
  nodes_["n0"].probe->finished_at = now_;
  nodes_["n1"].probe->has_pods = true;
  EXPECT_EQ(Ordered(Pass()), Orders{"n2 1"});
  nodes_["n2"].is_unschedulable = true;
  EXPECT_EQ(Ordered(Pass()), Orders{}) << "somebody else has it out";
  nodes_["n2"].is_unschedulable = false;
  nodes_["n2"].excluded = "by a person";
  EXPECT_EQ(Ordered(Pass()), Orders{});
  now_ += 100h;
  EXPECT_EQ(Ordered(Pass()), Orders{}) << "a week is what figures are good for";
  now_ += 26h;
  EXPECT_EQ(Ordered(Pass()), Orders{"n0 2"}) << "anew before they are too old";
  now_ -= 126h;
  nodes_["n0"].probe->has_gaps = true;
  now_ += 2h;
  EXPECT_EQ(Ordered(Pass()), Orders{"n0 2"}) << "something could not be measured: sooner";
  policy_.spec.probe.enabled = false;
  EXPECT_EQ(Ordered(Pass()), Orders{});
}

TEST_F(PolicyProbeTest, AnAgentThatDoesNotAnswerHoldsNobodyUp) {
  Out().is_answering = false;
  nodes_["n0"].probe = NodeProbe{};
  nodes_["n2"].probe = NodeProbe{3, 0, std::nullopt, false, false, false, ProbeVerdict::kUnknown};
  EXPECT_EQ(Ordered(Pass()), (Orders{"n1 5", "n0 1"}));
  Out().is_answering = true;
  EXPECT_EQ(Ordered(Pass()), Orders{"n1 5"}) << "the node that is out goes first";
}

}  // namespace
}  // namespace paceline::operator_
