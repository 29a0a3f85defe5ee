// StragglerPolicy: when a slow node is blamed, what may be done to it, and every brake on doing it. Without a policy,
// and with the default one, nothing is ever done to a node. Plain values; codec.h turns them to and from JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/api/meta.h"
#include "lib/api/node_probe.h"

namespace paceline::api {

// kObserve writes events, metrics and Incidents only; kTaint sets paceline.dev/straggler; kCordon both taints and
// cordons.
enum class StragglerAction { kObserve, kTaint, kCordon };

enum class Approval { kAutomatic, kManual };

// A node is blamed when it was over the threshold in `required` of the latest `windows`.
struct Detection {
  Duration window = std::chrono::seconds(60);
  int64_t windows = 5;
  int64_t required = 4;
  double slowdown_threshold = 1.1;     // time of a step over that without the node's lateness, 1.1: it costs 10 %
  int64_t minimum_communicators = 2;   // independent witnesses, where the job has that many
  double maximum_missing_ratio = 0.2;  // share of ranks without fresh data above which nothing is concluded
};

struct ActionBudget {
  std::string max_nodes = "1";  // nodes out at a time: a count, or "10%" of the selected ones but at least 1
  int64_t max_actions = 1;      // per action_period
  Duration action_period = std::chrono::hours(1);
  std::string breaker_nodes = "20%";  // blamed at a time, as max_nodes: above it the cause is none of them
};

// Probes of nodes that are out, and of idle nodes like them, with which they are compared.
struct ProbePolicy {
  bool enabled = false;
  std::vector<ProbeCheck> checks;           // empty: all
  bool put_back_after_pass = false;         // a node that is out and passes comes back, after the cool-down
  int64_t minimum_nodes = 3;                // like nodes with figures, below which nothing is concluded
  double tolerance = 0.1;                   // how far below the median of like nodes is still as fast as they are
  Duration period = std::chrono::hours(1);  // a node that is out is probed again so often
  Duration maximum_age = std::chrono::hours(168);  // figures that are older are not compared with
};

struct StragglerPolicySpec {
  std::map<std::string, std::string> node_selector;  // labels; empty: all nodes
  Detection detection;
  StragglerAction action = StragglerAction::kObserve;
  ActionBudget budget;
  Duration cool_down = std::chrono::hours(6);        // no second action on the same node before
  Duration veto_period = std::chrono::hours(24);     // how long a manual uncordon protects the node
  std::map<std::string, std::string> exclude_nodes;  // labels of nodes never touched; any match excludes
  Approval approval = Approval::kAutomatic;
  Duration approval_period = std::chrono::hours(1);     // of kManual: an Incident can be approved for so long
  Duration recovery_period = std::chrono::minutes(30);  // seen healthy for so long, a node is put back; 0: never
  bool restart_job = false;                             // restart a TrainingJob away from the node
  ProbePolicy probe;
  std::vector<std::string> pause_requests;  // reasons; while there is one, no new action
};

struct ActedNode {
  std::string node;
  StragglerAction action = StragglerAction::kObserve;
  std::string incident;  // namespace/name
  std::optional<WallTime> since;
  bool is_applied = false;  // the node was seen with our mark: from then on its absence is a person's wish
  std::optional<WallTime> healthy_since;  // all that is seen of it is good since
  int64_t probe_round = 0;                // of its NodePlan, that counts for it; 0: none was asked for yet
  std::optional<ProbeVerdict> probe;      // of that round
  std::optional<WallTime> probed_at;      // that round was seen done
};

// What was done, for the rate and the cool-down, which outlive the return of the node.
struct PastAction {
  std::string node;
  StragglerAction action = StragglerAction::kObserve;
  std::optional<WallTime> at;
};

inline constexpr size_t kMaxPastActions = 256;

struct NodeVeto {
  std::string node;
  std::optional<WallTime> until;
};

struct StragglerPolicyStatus {
  int64_t observed_generation = 0;
  int64_t selected_nodes = 0;
  std::vector<ActedNode> acted_nodes;
  std::vector<NodeVeto> vetoes;
  std::vector<NodeVeto> put_back_by_probe;  // until then no probe puts them back again
  std::optional<WallTime> last_action;
  std::vector<PastAction> recent_actions;  // oldest first
  std::optional<WallTime> evidence_since;  // what was measured before does not count: the breaker was reset
  std::vector<Condition> conditions;
};

struct StragglerPolicy {
  ObjectMeta metadata;
  StragglerPolicySpec spec;
  StragglerPolicyStatus status;
};

}  // namespace paceline::api
