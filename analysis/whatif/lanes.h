// The measured times of a trace laid out for the simulation: for each step and operation of the dependency graph a row
// with one cell per data-parallel rank (a lane). Steps that lack operations are left out and named.
//
// Built once per trace, then read by all scenarios. Pure; thread-safe to read.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "analysis/whatif/dependency_graph.h"
#include "analysis/whatif/trace.h"
#include "lib/base/result.h"

namespace paceline::analysis {

struct Lanes {
  std::vector<int64_t> steps;           // those that are whole, ascending
  std::vector<int64_t> left_out_steps;  // those that are not
  size_t ops = 0;
  size_t lanes = 0;  // data-parallel ranks

  // Seconds that an operation takes by itself: for a group from its last start to the operation's end (waiting removed,
  // below -10 ms taken for 0), else its duration. [op][step][lane], so that neighbouring steps of an op can be played
  // at once.
  std::vector<double> work;
  // Seconds from the end of all that it waits for to its start (below -10 ms taken for 0). [op][step][lane].
  std::vector<float> launch_delay;
  // From the first start to the last end, seconds, per step: what was measured.
  std::vector<double> step_seconds;
  // Ideal seconds per type: mean of `work` for computation, median for communication, over all steps, stages and ranks.
  std::array<double, kOpTypes> ideal{};

  // Of lane 0; the other lanes follow, then those of the next step.
  size_t CellOf(size_t step, size_t op) const { return (op * steps.size() + step) * lanes; }
  const double* Work(size_t step, size_t op) const { return &work[CellOf(step, op)]; }
  const float* LaunchDelay(size_t step, size_t op) const { return &launch_delay[CellOf(step, op)]; }
};

// kInvalidArgument when no step is whole, naming what the first one lacks.
Result<Lanes> LayOutLanes(const StepTrace& trace, const DependencyGraph& graph);

}  // namespace paceline::analysis
