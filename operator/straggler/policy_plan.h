// What a StragglerPolicy does now: from the policy, its nodes and what is found of them to the next status and the
// steps to take. All safeguards are here, in one pure function; the reconciler writes the status first and then takes
// the steps, so an operator that is killed in between finds on its return what it was about to do.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/straggler.h"
#include "lib/api/straggler_policy.h"
#include "lib/base/clock.h"

namespace paceline::operator_ {

// The annotation kStragglerKey of a node that is out.
struct NodeMark {
  std::string policy;
  api::StragglerAction action = api::StragglerAction::kTaint;
  std::string incident;
  std::optional<WallTime> at;
};

// How the node stands with probes (ProbeFleet).
struct NodeProbe {
  int64_t asked = 0;  // the round that its plan asks for, by whomever
  int64_t done = 0;   // the last that its agent has done
  std::optional<WallTime> finished_at;
  bool has_gaps = false;                                    // something that it was asked for could not be measured
  bool has_pods = false;                                    // of training runs: then it is not probed
  bool is_answering = false;                                // an agent that knows probes was heard of lately
  api::ProbeVerdict verdict = api::ProbeVerdict::kUnknown;  // of `done`; only of nodes that are out
};

struct PolicyNode {
  std::string name;
  bool is_selected = false;
  std::string excluded;      // why; empty when it is not
  std::string other_writer;  // who else takes care of its health; empty: nobody known
  bool is_unschedulable = false;
  bool has_taint = false;  // ours
  std::optional<NodeMark> mark;
  std::optional<NodeProbe> probe = std::nullopt;  // absent: without a plan, or the policy does not probe
};

enum class ApprovalState { kNotNeeded, kWaiting, kGiven, kExpired };

// What is known of a node over all runs under the policy.
struct NodeFinding {
  analysis::NodeState state = analysis::NodeState::kUnknown;
  double slowdown = 0;
  std::string incident;  // namespace/name
  ApprovalState approval = ApprovalState::kNotNeeded;
};

enum class StepKind {
  kAct,      // mark, taint and, for Cordon, cordon
  kRelease,  // take all of it back
  kClear     // a person has put the node back: take away what is left of ours
};

struct PolicyStep {
  StepKind kind = StepKind::kAct;
  std::string node;
  api::StragglerAction action = api::StragglerAction::kTaint;
  std::string incident;
  std::string reason;  // one CamelCase word
};

// A slow node that is left alone.
struct Refusal {
  std::string node;
  std::string incident;
  std::string reason;  // one CamelCase word, of a bounded set
  std::string message;
};

// The jobs that have run on this node since before it was taken out, and that it is slow for, are to start anew. A run
// that began later came there although the node was out, and would come there again.
struct NodeRestart {
  std::string node;
  std::string incident;
  WallTime out_since;
};

// The plan of the node is to ask for this round at least.
struct ProbeOrder {
  std::string node;
  int64_t round = 0;
};

struct PolicyInput {
  const api::StragglerPolicy& policy;
  std::vector<PolicyNode> nodes;
  std::map<std::string, NodeFinding> findings;  // by node
  bool is_breaker_reset = false;                // a person asks for it
  WallTime now;
};

struct PolicyPlan {
  api::StragglerPolicyStatus status;
  std::vector<PolicyStep> steps;
  std::vector<Refusal> refusals;
  std::vector<NodeRestart> restarts;
  std::vector<ProbeOrder> probes;
};

inline constexpr std::string_view kReadyCondition = "Ready";
inline constexpr std::string_view kPausedCondition = "Paused";
inline constexpr std::string_view kBreakerCondition = "BreakerTripped";

PolicyPlan PlanPolicy(const PolicyInput& input);

// "3", or "10%" of `nodes`; a percentage is rounded down but never below 1. Zero for what is neither.
int64_t CountOf(const std::string& count_or_percent, int64_t nodes);

// The reasons that a Refusal may have.
inline constexpr std::array<std::string_view, 13> kRefusalReasons = {
    "ObserveOnly", "Paused",         "Excluded", "OtherWriter", "OtherPolicy",        "AlreadyCordoned", "Vetoed",
    "CoolDown",    "BreakerTripped", "Budget",   "Rate",        "WaitingForApproval", "ApprovalExpired"};

}  // namespace paceline::operator_
