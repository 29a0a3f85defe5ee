#include "operator/straggler/findings.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::operator_ {

using analysis::NodeState;
using analysis::NodeVerdict;

namespace {

constexpr size_t kMaxNamedRanks = 16;
constexpr size_t kMaxActions = 64;  // of an Incident

double ConfidenceOf(const NodeVerdict& verdict, const CombinedVerdict& combined) {
  double confidence = 0.7;
  if (combined.witnesses >= 2) confidence += 0.15;
  if (verdict.windows_over == verdict.windows) confidence += 0.1;
  return confidence;
}

std::string CauseOf(const std::string& node, const NodeVerdict& verdict) {
  std::vector<int32_t> named = verdict.ranks;
  const bool is_cut = named.size() > kMaxNamedRanks;
  if (is_cut) named.resize(kMaxNamedRanks);
  return fmt::format(
      "Node {} is slow: {} of the {} ranks on it (rank {}{}) come late to collectives, and a step takes {:.2f} times "
      "as "
      "long as with the node as fast as its peers",
      node, verdict.ranks.size(), verdict.ranks_here, fmt::join(named, ", "), is_cut ? ", ..." : "", verdict.slowdown);
}

// "Budget" of "Budget: 1 of 3 ...": what follows changes from moment to moment.
std::string_view ReasonOf(const std::string& result) { return std::string_view(result).substr(0, result.find(':')); }

}  // namespace

CombinedVerdict Combine(const std::vector<NodeVerdict>& verdicts, int64_t minimum_communicators) {
  CombinedVerdict combined;
  bool is_any_slow = false, is_any_suspect = false;
  double worst = -1;
  for (size_t i = 0; i < verdicts.size(); ++i) {
    const NodeVerdict& verdict = verdicts[i];
    if (verdict.state == NodeState::kUnknown) continue;
    combined.runs++;
    combined.available += verdict.communicators_available;
    is_any_suspect |= verdict.state == NodeState::kSuspect;
    if (verdict.state != NodeState::kSlow) continue;
    is_any_slow = true;
    combined.witnesses += verdict.communicators;
    if (verdict.slowdown > worst) {
      worst = verdict.slowdown;
      combined.worst = i;
    }
  }
  const int64_t needed = std::min<int64_t>(minimum_communicators, combined.available);
  if (is_any_slow) {
    combined.state = combined.witnesses >= needed ? NodeState::kSlow : NodeState::kSuspect;
  } else if (combined.runs > 0) {
    combined.state = is_any_suspect ? NodeState::kSuspect : NodeState::kHealthy;
  }
  return combined;
}

api::IncidentStatus StragglerStatus(const std::string& node, const NodeVerdict& verdict,
                                    const CombinedVerdict& combined, const std::vector<std::string>& pods,
                                    const api::StragglerPolicySpec& policy) {
  const int64_t minimum_communicators = policy.detection.minimum_communicators;
  api::IncidentStatus status;
  status.state = api::IncidentState::kOpen;
  api::Verdict& out = status.verdict.emplace();
  out.category = api::VerdictCategory::kCompute;
  out.cause = CauseOf(node, verdict);
  for (const int32_t rank : verdict.ranks) out.ranks.push_back(rank);
  if (out.ranks.size() > 1024) out.ranks.resize(1024);
  out.pods = pods;
  if (out.pods.size() > 1024) out.pods.resize(1024);
  out.nodes = {node};
  out.confidence = ConfidenceOf(verdict, combined);
  const auto number = [&](const char* name, double value, const char* unit, std::optional<double> usual = {}) {
    status.evidence.push_back({name, value, unit, usual});
  };
  number("slowdown", verdict.slowdown, "ratio", 1);
  number("deviations", verdict.deviations, "standard deviations of the peers");
  number("ownShare", verdict.share, "ratio", verdict.peer_share);
  number("windowsOver", verdict.windows_over, "windows", 0);
  number("windowsKnown", verdict.windows_known, "windows", verdict.windows);
  number("ranksSlow", static_cast<double>(verdict.ranks.size()), "ranks", 0);
  number("ranksOnNode", static_cast<double>(verdict.ranks_here), "ranks");
  number("communicators", combined.witnesses, "communicators");
  number("communicatorsCompared", combined.available, "communicators");
  number("runs", combined.runs, "runs");
  number("missingRatio", verdict.missing, "ratio", 0);
  status.not_visible.push_back(fmt::format(
      "why the node is slow: its GPUs, processors and memory are {}, and work that the job itself gives to one rank "
      "only looks the same",
      policy.probe.enabled ? "probed once it is out and the job's pods have left it" : "not probed"));
  if (combined.available < minimum_communicators) {
    status.not_visible.push_back(fmt::format("other jobs or communicators: {} to compare in, where {} are wanted",
                                             combined.available, minimum_communicators));
  }
  return status;
}

bool AddAction(api::IncidentStatus& status, api::IncidentAction action) {
  if (!status.actions.empty()) {
    const api::IncidentAction& last = status.actions.back();
    const bool is_same = last.action == action.action && last.node == action.node;
    if (is_same && ReasonOf(last.result) == ReasonOf(action.result)) return false;
  }
  status.actions.push_back(std::move(action));
  if (status.actions.size() > kMaxActions) status.actions.erase(status.actions.begin());
  return true;
}

}  // namespace paceline::operator_
