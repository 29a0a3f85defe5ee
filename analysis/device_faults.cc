#include "analysis/device_faults.h"

#include <fmt/format.h>

#include <set>

namespace paceline::analysis {
namespace {

constexpr size_t kMostFaults = 8;

std::set<std::string> NodesOf(const Tables& tables, const Verdict& verdict) {
  std::set<std::string> nodes;
  for (const Culprit& culprit : verdict.culprits) nodes.insert(culprit.node);
  for (const ProcessView& process : tables.processes) {
    const bool is_end = verdict.edge && process.world_rank >= 0 &&
                        (process.world_rank == verdict.edge->from || process.world_rank == verdict.edge->to);
    if (is_end) nodes.insert(process.node);
  }
  return nodes;
}

}  // namespace

void AddDeviceFaults(const Tables& tables, Verdict* verdict) {
  if (verdict->category == Category::kNone) return;
  const std::set<std::string> nodes = NodesOf(tables, *verdict);
  if (nodes.empty() && verdict->category != Category::kUnknown) return;
  size_t added = 0;
  for (const DeviceFault& fault : tables.device_faults) {
    if (!nodes.empty() && !nodes.contains(fault.node)) continue;
    if (added++ == kMostFaults) return;
    verdict->evidence.push_back(
        {fmt::format("{} of {}: {}", fault.device, fault.node, fault.fault), fault.value, fault.unit, {}});
  }
}

}  // namespace paceline::analysis
