// Plays one step of the dependency graph through: each operation starts when all that it waits for has ended, a group
// ends when its last member has started and the transfer is over. Many lanes at once: lanes are independent but for the
// units that wait for data-parallel ranks, where `lanes_per_group` neighbours wait for each other.
//
// Called by analysis.cc. One object per thread; the graph must outlive it. Pure, no allocation per run.
#pragma once

#include <functional>
#include <vector>

#include "analysis/whatif/dependency_graph.h"

namespace paceline::analysis {

class Simulator {
 public:
  // `lanes` is a multiple of `lanes_per_group`, both at least 1.
  Simulator(const DependencyGraph& graph, size_t lanes, size_t lanes_per_group);

  // Writes the seconds that `op` takes in each lane to `row`.
  using Fill = std::function<void(size_t op, double* row)>;
  // `delay`, when given, writes how much later than possible `op` starts. Afterwards ends() has the time of the last
  // end per group of lanes, from the step's begin, in seconds.
  void Run(const Fill& work, const Fill& delay = {});

  const std::vector<double>& group_ends() const { return group_ends_; }
  // Of the last run: when `op` started and ended in each lane.
  const double* StartsOf(size_t op) const { return &starts_[op * lanes_]; }
  const double* EndsOf(size_t op) const { return &ends_[op * lanes_]; }

 private:
  void StartOp(size_t op, const Fill& delay);
  void LatestOverGroup(std::vector<double>& row) const;

  const DependencyGraph& graph_;
  const size_t lanes_;
  const size_t lanes_per_group_;
  std::vector<double> starts_;  // [op][lane]
  std::vector<double> ends_;
  std::vector<double> latest_;  // scratch: per lane
  std::vector<double> row_;
  std::vector<double> group_ends_;
};

}  // namespace paceline::analysis
