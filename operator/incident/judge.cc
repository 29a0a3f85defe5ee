#include "operator/incident/judge.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::operator_ {
namespace {

using analysis::Category;
using analysis::ProcessState;

const analysis::ProcessView* Find(const analysis::Tables& tables, const analysis::Culprit& culprit) {
  for (const analysis::ProcessView& process : tables.processes) {
    if (process.world_rank == culprit.world_rank && process.node == culprit.node && process.host == culprit.host) {
      return &process;
    }
  }
  return nullptr;
}

// A rank that has not come, or does not come back, though its process runs.
Judgement JudgeHost(const analysis::Verdict& verdict, const analysis::Tables& tables, Duration lasted,
                    const JudgeOptions& options) {
  bool may_pause = false;
  for (const analysis::Culprit& culprit : verdict.culprits) {
    const analysis::ProcessView* process = Find(tables, culprit);
    if (process == nullptr || process->state != ProcessState::kRunning) continue;
    if (process->io_bytes_per_second.value_or(0) >= options.busy_io) {
      return {false, fmt::format("rank {} reads or writes {:.0f} MB/s, as for a checkpoint", culprit.world_rank,
                                 *process->io_bytes_per_second / 1e6)};
    }
    may_pause = true;
  }
  if (may_pause && lasted < options.host_pause) return {false, "the rank's process runs: it may be a pause"};
  return {true, {}};
}

}  // namespace

Judgement Judge(const analysis::Verdict& verdict, const analysis::Tables& tables, api::TriggerKind trigger,
                Duration lasted, const JudgeOptions& options) {
  const bool is_slowdown = trigger == api::TriggerKind::kSlowdown;
  if (is_slowdown && lasted < options.slow_patience) return {false, "not slow for long enough yet"};
  switch (verdict.category) {
    case Category::kNone:
      if (is_slowdown) return {true, {}};
      return {false, "nothing stands still that should go on"};
    case Category::kUnknown:
      if (lasted < options.unknown_patience) return {false, "the cause is not known yet"};
      return {true, {}};
    case Category::kNotLaunched:
    case Category::kHostStuck: return JudgeHost(verdict, tables, lasted, options);
    default: return {true, {}};
  }
}

std::optional<api::IncidentTrigger> FirstTrigger(const std::map<std::string, TraceReport>& reports) {
  std::optional<api::IncidentTrigger> first;
  for (const auto& [node, report] : reports) {
    for (const api::TraceAlert& alert : report.alerts) {
      const bool is_loss = alert.kind == api::TriggerKind::kProcessLost;
      if (first) {
        const bool first_is_loss = first->kind == api::TriggerKind::kProcessLost;
        if (first_is_loss && !is_loss) continue;
        if (first_is_loss == is_loss && first->at && (!alert.at || *alert.at >= *first->at)) continue;
      }
      first = api::IncidentTrigger{alert.kind, node, alert.at, alert.detail};
    }
  }
  return first;
}

api::IncidentStatus StatusOf(const analysis::Verdict& verdict, const PodLookup& pod_of) {
  api::IncidentStatus status;
  status.state = api::IncidentState::kOpen;
  api::Verdict& out = status.verdict.emplace();
  if (verdict.category == Category::kNone) {
    out.cause = "Collectives take longer than usual, and no single link or rank stands still.";
    status.not_visible.push_back("which rank comes late: nodes' clocks are not compared");
  } else {
    // The classes are the same, behind kNone; judge_test holds them equal.
    out.category = static_cast<api::VerdictCategory>(static_cast<int>(verdict.category) - 1);
    out.cause = verdict.cause;
  }
  const auto add = [](std::vector<std::string>& list, const std::string& name) {
    if (!name.empty() && std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
  };
  for (const analysis::Culprit& culprit : verdict.culprits) {
    if (culprit.world_rank >= 0) out.ranks.push_back(culprit.world_rank);
    add(out.nodes, culprit.node);
    add(out.pods, pod_of(culprit));
  }
  out.communicator = verdict.communicator;
  if (verdict.edge && verdict.edge->from >= 0 && verdict.edge->to >= 0) {
    out.edge = api::Edge{verdict.edge->from, verdict.edge->to, std::nullopt};
    if (verdict.edge->channel >= 0) out.edge->channel = verdict.edge->channel;
  }
  out.confidence = verdict.confidence;
  for (const analysis::Evidence& evidence : verdict.evidence) {
    status.evidence.push_back({evidence.name, evidence.value, evidence.unit, evidence.usual});
  }
  status.not_visible.insert(status.not_visible.end(), verdict.not_visible.begin(), verdict.not_visible.end());
  return status;
}

}  // namespace paceline::operator_
