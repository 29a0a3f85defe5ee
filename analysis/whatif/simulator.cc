#include "analysis/whatif/simulator.h"

#include <algorithm>

namespace paceline::analysis {

Simulator::Simulator(const DependencyGraph& graph, size_t lanes, size_t lanes_per_group)
    : graph_(graph),
      lanes_(lanes),
      lanes_per_group_(lanes_per_group),
      starts_(graph.ops.size() * lanes),
      ends_(graph.ops.size() * lanes),
      latest_(lanes),
      row_(lanes),
      group_ends_(lanes / lanes_per_group) {}

void Simulator::StartOp(size_t op, const Fill& delay) {
  double* start = &starts_[op * lanes_];
  const std::vector<int>& dependencies = graph_.dependencies[op];
  if (dependencies.empty()) std::fill_n(start, lanes_, 0.0);
  for (size_t i = 0; i < dependencies.size(); i++) {
    const double* end = &ends_[static_cast<size_t>(dependencies[i]) * lanes_];
    if (i == 0) {
      std::copy_n(end, lanes_, start);
      continue;
    }
    for (size_t lane = 0; lane < lanes_; lane++) start[lane] = std::max(start[lane], end[lane]);
  }
  if (!delay) return;
  delay(op, row_.data());
  for (size_t lane = 0; lane < lanes_; lane++) start[lane] += row_[lane];
}

void Simulator::LatestOverGroup(std::vector<double>& row) const {
  for (size_t first = 0; first < lanes_; first += lanes_per_group_) {
    double latest = row[first];
    for (size_t i = 1; i < lanes_per_group_; i++) latest = std::max(latest, row[first + i]);
    std::fill_n(row.begin() + static_cast<std::ptrdiff_t>(first), lanes_per_group_, latest);
  }
}

void Simulator::Run(const Fill& work, const Fill& delay) {
  std::fill(group_ends_.begin(), group_ends_.end(), 0.0);
  for (const GraphUnit& unit : graph_.units) {
    for (const int op : unit.ops) StartOp(static_cast<size_t>(op), delay);
    std::copy_n(&starts_[static_cast<size_t>(unit.ops.front()) * lanes_], lanes_, latest_.begin());
    for (size_t i = 1; i < unit.ops.size(); i++) {
      const double* start = &starts_[static_cast<size_t>(unit.ops[i]) * lanes_];
      for (size_t lane = 0; lane < lanes_; lane++) latest_[lane] = std::max(latest_[lane], start[lane]);
    }
    if (unit.waits_for_dp_ranks) LatestOverGroup(latest_);
    for (const int op : unit.ops) {
      double* end = &ends_[static_cast<size_t>(op) * lanes_];
      work(static_cast<size_t>(op), end);
      for (size_t lane = 0; lane < lanes_; lane++) end[lane] += latest_[lane];
    }
  }
  // What ends last is an optimizer in any whole step; a cut-off tail must not hide what came before.
  for (size_t op = 0; op < graph_.ops.size(); op++) {
    const double* end = &ends_[op * lanes_];
    for (size_t lane = 0; lane < lanes_; lane++) {
      double& last = group_ends_[lane / lanes_per_group_];
      last = std::max(last, end[lane]);
    }
  }
}

}  // namespace paceline::analysis
