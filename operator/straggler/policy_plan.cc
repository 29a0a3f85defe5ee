#include "operator/straggler/policy_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace paceline::operator_ {
namespace {

using analysis::NodeState;
using api::ActedNode;
using api::ConditionStatus;
using api::ProbeVerdict;
using api::StragglerAction;

// An intent that was written and not carried out is carried out for so long.
constexpr Duration kIntentLife = std::chrono::minutes(5);
// Agents remember a quarter of an hour.
constexpr Duration kLongestDetection = std::chrono::minutes(15);
// A node that a probe has put back and that is slow again has something that probes do not see: for so long no probe
// puts it back again. Or for four cool-downs, if that is longer.
constexpr Duration kProbeMemory = std::chrono::hours(24);
// Of the nodes that are idle so many are probed at a time: probes measure the network with each other's nodes.
constexpr int64_t kNodesPerProbe = 50;

std::string Minutes(Duration duration) { return fmt::format("{:.0f} min", ToSeconds(duration) / 60); }

class PolicyPlanner {
 public:
  explicit PolicyPlanner(const PolicyInput& input)
      : input_(input), spec_(input.policy.spec), now_(input.now), findings_(input.findings) {
    plan_.status = input.policy.status;
    for (const PolicyNode& node : input.nodes) nodes_.emplace(node.name, &node);
  }

  PolicyPlan Plan() {
    plan_.status.observed_generation = input_.policy.metadata.generation;
    plan_.status.selected_nodes = std::count_if(input_.nodes.begin(), input_.nodes.end(),
                                                [](const PolicyNode& node) { return node.is_selected; });
    DropOldMemory();
    if (input_.is_breaker_reset) ResetBreaker();
    AdoptMarked();
    KeepActed();
    TripBreaker();
    ActOnSlow();
    RestartJobs();
    ProbeIdle();
    SetConditions();
    return std::move(plan_);
  }

 private:
  const PolicyNode* Find(const std::string& name) const {
    const auto found = nodes_.find(name);
    return found == nodes_.end() ? nullptr : found->second;
  }
  bool IsOurs(const PolicyNode& node) const { return node.mark && node.mark->policy == input_.policy.metadata.name; }
  bool IsActed(const std::string& name) const {
    const auto& acted = plan_.status.acted_nodes;
    return std::any_of(acted.begin(), acted.end(), [&](const ActedNode& entry) { return entry.node == name; });
  }
  NodeFinding FindingOf(const std::string& name) const {
    const auto found = findings_.find(name);
    return found == findings_.end() ? NodeFinding{} : found->second;
  }
  bool HasTripped() const { return api::IsConditionTrue(plan_.status.conditions, kBreakerCondition); }

  void DropOldMemory() {
    std::erase_if(plan_.status.vetoes, [&](const api::NodeVeto& veto) { return !veto.until || *veto.until <= now_; });
    std::erase_if(plan_.status.put_back_by_probe,
                  [&](const api::NodeVeto& entry) { return !entry.until || *entry.until <= now_; });
    const Duration memory = std::max(spec_.budget.action_period, spec_.cool_down);
    auto& past = plan_.status.recent_actions;
    std::erase_if(past, [&](const api::PastAction& action) { return !action.at || now_ - *action.at > memory; });
    if (past.size() > api::kMaxPastActions) past.erase(past.begin(), past.end() - api::kMaxPastActions);
  }

  void ResetBreaker() {
    api::SetCondition(plan_.status.conditions,
                      {.type = std::string(kBreakerCondition),
                       .status = ConditionStatus::kFalse,
                       .reason = "Reset",
                       .message = "a person has reset it"},
                      now_);
    // What was found is of before, and must not be acted on now.
    plan_.status.evidence_since = now_;
    findings_.clear();
  }

  // Nodes that carry our mark but are not in the status: it was lost, the node tells.
  void AdoptMarked() {
    for (const PolicyNode& node : input_.nodes) {
      if (!IsOurs(node) || IsActed(node.name)) continue;
      ActedNode acted;
      acted.node = node.name;
      acted.action = node.mark->action;
      acted.incident = node.mark->incident;
      acted.since = node.mark->at;
      acted.is_applied = true;
      plan_.status.acted_nodes.push_back(std::move(acted));
    }
  }

  void KeepActed() {
    std::vector<ActedNode> kept;
    for (ActedNode& acted : plan_.status.acted_nodes) {
      const PolicyNode* node = Find(acted.node);
      if (node == nullptr) continue;  // the node is gone
      const bool stays = IsOurs(*node) ? KeepMarked(*node, acted) : KeepUnmarked(*node, acted);
      if (stays) kept.push_back(std::move(acted));
    }
    plan_.status.acted_nodes = std::move(kept);
  }

  bool KeepMarked(const PolicyNode& node, ActedNode& acted) {
    const bool is_put_back = !node.has_taint || (acted.action == StragglerAction::kCordon && !node.is_unschedulable);
    if (is_put_back) {
      Veto(node.name);
      plan_.steps.push_back({StepKind::kClear, node.name, acted.action, acted.incident, "PutBack"});
      return false;
    }
    acted.is_applied = true;
    if (FindingOf(node.name).state == NodeState::kHealthy) {
      if (!acted.healthy_since) acted.healthy_since = now_;
    } else {
      acted.healthy_since.reset();  // not known is not healthy
    }
    FollowProbe(node, acted);
    const bool has_recovered = spec_.recovery_period > Duration::zero() && acted.healthy_since &&
                               now_ - *acted.healthy_since >= spec_.recovery_period &&
                               acted.probe != ProbeVerdict::kFailed;
    const bool has_passed = IsPutBackByProbe(node, acted);
    if (!has_recovered && !has_passed && node.is_selected) return true;
    if (has_passed) {
      plan_.status.put_back_by_probe.push_back({node.name, now_ + std::max(kProbeMemory, spec_.cool_down * 4)});
    }
    const char* reason = has_recovered ? "Recovered" : (has_passed ? "ProbePassed" : "NotSelected");
    plan_.steps.push_back({StepKind::kRelease, node.name, acted.action, acted.incident, reason});
    return false;
  }

  // Of a node that is out: asks for a probe once its training pods have left, and again every period; what the last one
  // says stays until the next one is done.
  void FollowProbe(const PolicyNode& node, ActedNode& acted) {
    if (!spec_.probe.enabled) {
      acted.probe_round = 0;
      acted.probe.reset();
      acted.probed_at.reset();
      return;
    }
    if (!node.probe) return;
    const NodeProbe& probe = *node.probe;
    if (acted.probe_round == 0 || !acted.probe) acted.probe = ProbeVerdict::kPending;
    if (acted.probe_round > 0 && probe.done >= acted.probe_round) {
      acted.probe = probe.verdict;
      if (!acted.probed_at) acted.probed_at = now_;
    }
    const bool is_over = acted.probed_at && now_ - *acted.probed_at >= spec_.probe.period;
    if (!probe.has_pods && (acted.probe_round == 0 || is_over)) {
      acted.probe_round = std::max(probe.asked, probe.done) + 1;
      acted.probed_at.reset();
    }
    if (!probe.has_pods && acted.probe_round > probe.done) plan_.probes.push_back({node.name, acted.probe_round});
  }

  bool IsPutBackByProbe(const PolicyNode& node, const ActedNode& acted) const {
    const bool is_known = node.probe && acted.probe_round > 0 && node.probe->done >= acted.probe_round;
    const bool has_passed = spec_.probe.enabled && is_known && acted.probe == ProbeVerdict::kPassed;
    const bool is_cool = acted.since && now_ - *acted.since >= spec_.cool_down;
    if (!spec_.probe.put_back_after_pass || !has_passed || !is_cool || node.probe->has_pods) return false;
    const auto& before = plan_.status.put_back_by_probe;
    return std::none_of(before.begin(), before.end(),
                        [&](const api::NodeVeto& entry) { return entry.node == node.name; });
  }

  // Idle nodes are probed so that there is something to compare with when one is out; they seldom are idle then.
  void ProbeIdle() {
    if (!spec_.probe.enabled) return;
    const auto is_idle = [this](const PolicyNode& node) {
      const bool is_free = node.is_selected && !node.is_unschedulable && !node.mark && node.excluded.empty() &&
                           node.other_writer.empty() && !IsActed(node.name);
      return is_free && node.probe && !node.probe->has_pods;
    };
    int64_t open = std::max<int64_t>(1, plan_.status.selected_nodes / kNodesPerProbe);
    for (const PolicyNode& node : input_.nodes) {
      // Not those of agents that do not answer, or everybody would wait for them.
      if (is_idle(node) && node.probe->is_answering && node.probe->asked > node.probe->done) --open;
    }
    for (const ProbeOrder& order : plan_.probes) {
      if (Find(order.node)->probe->is_answering) --open;
    }
    for (const PolicyNode& node : input_.nodes) {
      if (open <= 0) return;
      if (!is_idle(node) || node.probe->asked > node.probe->done) continue;
      // Before its figures are too old to be compared with.
      const Duration life = node.probe->has_gaps ? spec_.probe.period : spec_.probe.maximum_age * 3 / 4;
      const std::optional<WallTime>& at = node.probe->finished_at;
      if (node.probe->done > 0 && at && now_ - *at < life) continue;
      plan_.probes.push_back({node.name, std::max(node.probe->asked, node.probe->done) + 1});
      --open;
    }
  }

  // In the status and without our mark: not done yet, or undone by a person.
  bool KeepUnmarked(const PolicyNode& node, ActedNode& acted) {
    if (acted.is_applied) {
      Veto(node.name);
      return false;
    }
    const bool is_fresh = acted.since && now_ - *acted.since <= kIntentLife;
    const NodeState state = FindingOf(node.name).state;
    const bool still_holds = state != NodeState::kHealthy && node.is_selected && !HasTripped();
    if (!is_fresh || !still_holds || !WhyNever(node).reason.empty()) return false;
    acted.action = spec_.action;
    // After a restart the node is not known to be slow for a while: then it waits.
    if (state == NodeState::kSlow) {
      plan_.steps.push_back({StepKind::kAct, node.name, acted.action, acted.incident, "Slow"});
    }
    return true;
  }

  void Veto(const std::string& node) {
    std::erase_if(plan_.status.vetoes, [&](const api::NodeVeto& veto) { return veto.node == node; });
    plan_.status.vetoes.push_back({node, now_ + spec_.veto_period});
  }

  std::vector<std::pair<std::string, NodeFinding>> SlowNodes() const {
    std::vector<std::pair<std::string, NodeFinding>> slow;
    for (const auto& [name, finding] : findings_) {
      const PolicyNode* node = Find(name);
      if (finding.state == NodeState::kSlow && node != nullptr && node->is_selected) slow.emplace_back(name, finding);
    }
    std::stable_sort(slow.begin(), slow.end(),
                     [](const auto& a, const auto& b) { return a.second.slowdown > b.second.slowdown; });
    return slow;
  }

  void TripBreaker() {
    const int64_t limit = CountOf(spec_.budget.breaker_nodes, plan_.status.selected_nodes);
    const auto blamed = static_cast<int64_t>(SlowNodes().size());
    if (blamed <= limit || HasTripped()) return;
    api::SetCondition(
        plan_.status.conditions,
        {.type = std::string(kBreakerCondition),
         .status = ConditionStatus::kTrue,
         .reason = "TooManyBlamed",
         .message = fmt::format("{} nodes were blamed at a time, more than {}: the cause is none of them. "
                                "Set the annotation paceline.dev/reset-breaker to \"true\" to go on",
                                blamed, limit)},
        now_);
  }

  // Why the node may not be touched at all; an empty reason when it may.
  Refusal WhyNever(const PolicyNode& node) const {
    const auto refuse = [&](const char* reason, std::string message) {
      return Refusal{node.name, {}, reason, std::move(message)};
    };
    if (spec_.action == StragglerAction::kObserve) return refuse("ObserveOnly", "the policy only observes");
    if (!spec_.pause_requests.empty()) {
      return refuse("Paused", fmt::format("paused: {}", fmt::join(spec_.pause_requests, "; ")));
    }
    if (!node.excluded.empty()) return refuse("Excluded", node.excluded);
    if (!node.other_writer.empty()) return refuse("OtherWriter", node.other_writer + " takes care of the node");
    if (node.mark && !IsOurs(node)) return refuse("OtherPolicy", "out because of policy " + node.mark->policy);
    if (node.is_unschedulable && !IsOurs(node)) return refuse("AlreadyCordoned", "somebody else has cordoned it");
    for (const api::NodeVeto& veto : plan_.status.vetoes) {
      if (veto.node == node.name) {
        return refuse("Vetoed", "a person has put it back; not again before " + FormatRfc3339(*veto.until));
      }
    }
    return {};
  }

  Refusal WhyNot(const PolicyNode& node, const NodeFinding& finding) const {
    Refusal never = WhyNever(node);
    if (!never.reason.empty()) return never;
    const auto refuse = [&](const char* reason, std::string message) {
      return Refusal{node.name, {}, reason, std::move(message)};
    };
    for (const api::PastAction& action : plan_.status.recent_actions) {
      if (action.node == node.name && now_ - *action.at < spec_.cool_down) {
        return refuse("CoolDown", fmt::format("there was an action {} ago, and the cool-down is {}",
                                              Minutes(now_ - *action.at), Minutes(spec_.cool_down)));
      }
    }
    if (HasTripped()) return refuse("BreakerTripped", "the breaker has tripped");
    const int64_t limit = CountOf(spec_.budget.max_nodes, plan_.status.selected_nodes);
    if (NodesOut() + 1 > limit) {
      return refuse("Budget", fmt::format("{} of {} selected nodes are out, and {} may be", NodesOut(),
                                          plan_.status.selected_nodes, limit));
    }
    const auto recent =
        std::count_if(plan_.status.recent_actions.begin(), plan_.status.recent_actions.end(),
                      [&](const api::PastAction& action) { return now_ - *action.at < spec_.budget.action_period; });
    if (recent >= spec_.budget.max_actions) {
      return refuse("Rate", fmt::format("{} actions within {}, and {} may be", recent,
                                        Minutes(spec_.budget.action_period), spec_.budget.max_actions));
    }
    if (finding.approval == ApprovalState::kWaiting) {
      return refuse("WaitingForApproval", "set the annotation paceline.dev/approve of the Incident to \"true\"");
    }
    if (finding.approval == ApprovalState::kExpired) {
      return refuse("ApprovalExpired", "nobody has approved it within " + Minutes(spec_.approval_period));
    }
    return {};
  }

  // Selected nodes that take no pods now, whoever has done it, and those that are about to.
  int64_t NodesOut() const {
    std::set<std::string> out;
    for (const PolicyNode& node : input_.nodes) {
      if (node.is_selected && (node.is_unschedulable || node.mark)) out.insert(node.name);
    }
    for (const ActedNode& acted : plan_.status.acted_nodes) out.insert(acted.node);
    return static_cast<int64_t>(out.size());
  }

  void ActOnSlow() {
    for (const auto& [name, finding] : SlowNodes()) {
      if (IsActed(name)) continue;
      Refusal refusal = WhyNot(*Find(name), finding);
      if (!refusal.reason.empty()) {
        refusal.incident = finding.incident;
        plan_.refusals.push_back(std::move(refusal));
        continue;
      }
      ActedNode acted;
      acted.node = name;
      acted.action = spec_.action;
      acted.incident = finding.incident;
      acted.since = now_;
      plan_.status.acted_nodes.push_back(std::move(acted));
      plan_.status.recent_actions.push_back({name, spec_.action, now_});
      plan_.status.last_action = now_;
      plan_.steps.push_back({StepKind::kAct, name, spec_.action, finding.incident, "Slow"});
    }
  }

  // Once a node is out; whatever holds back actions on nodes holds this back, too.
  void RestartJobs() {
    if (!spec_.restart_job || !spec_.pause_requests.empty() || HasTripped()) return;
    for (const ActedNode& acted : plan_.status.acted_nodes) {
      const bool is_slow = FindingOf(acted.node).state == NodeState::kSlow;
      if (acted.is_applied && acted.since && is_slow)
        plan_.restarts.push_back({acted.node, acted.incident, *acted.since});
    }
  }

  void Set(std::string_view type, ConditionStatus status, const char* reason, std::string message) {
    api::SetCondition(plan_.status.conditions,
                      {.type = std::string(type),
                       .status = status,
                       .observed_generation = input_.policy.metadata.generation,
                       .reason = reason,
                       .message = std::move(message)},
                      now_);
  }

  void SetConditions() {
    if (spec_.pause_requests.empty()) {
      Set(kPausedCondition, ConditionStatus::kFalse, "NoRequest", "");
    } else {
      Set(kPausedCondition, ConditionStatus::kTrue, "Requested",
          fmt::format("{}", fmt::join(spec_.pause_requests, "; ")));
    }
    if (api::FindCondition(plan_.status.conditions, kBreakerCondition) == nullptr) {
      Set(kBreakerCondition, ConditionStatus::kFalse, "WithinLimit", "");
    }
    if (spec_.detection.window * spec_.detection.windows > kLongestDetection) {
      Set(kReadyCondition, ConditionStatus::kFalse, "DetectionTooLong",
          "windows times window is more than 15 min, which is what agents remember: no node is ever blamed");
    } else {
      Set(kReadyCondition, ConditionStatus::kTrue, "Watching", "");
    }
  }

  const PolicyInput& input_;
  const api::StragglerPolicySpec& spec_;
  const WallTime now_;
  std::map<std::string, NodeFinding> findings_;
  std::map<std::string, const PolicyNode*> nodes_;
  PolicyPlan plan_;
};

}  // namespace

int64_t CountOf(const std::string& count_or_percent, int64_t nodes) {
  int64_t value = 0;
  const char* end = count_or_percent.data() + count_or_percent.size();
  const auto [rest, error] = std::from_chars(count_or_percent.data(), end, value);
  if (error != std::errc() || value < 0) return 0;
  if (rest == end) return value;
  const bool is_percent = *rest == '%' && rest + 1 == end && value <= 100;
  // None of the nodes was asked for; of any other share of a small pool one node is the least.
  if (!is_percent || value == 0) return 0;
  return std::max<int64_t>(nodes * value / 100, 1);
}

PolicyPlan PlanPolicy(const PolicyInput& input) { return PolicyPlanner(input).Plan(); }

}  // namespace paceline::operator_
