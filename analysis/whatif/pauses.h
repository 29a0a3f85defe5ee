// Computations in pairs: the forward and the backward of a micro-batch on a worker, and the forwards that paused where
// their backward did not, as Python's garbage collector makes them (arXiv 2505.05713, section 5).
//
// Called by hints.cc and scenarios.cc. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "analysis/whatif/model.h"

namespace paceline::analysis {

// Of one stage; seconds. Pairs that lack one of the two are left out.
struct ComputePairs {
  std::vector<size_t> forward_ops;  // per micro-batch: the op in the graph
  size_t lanes = 0;
  size_t per_lane = 0;  // steps * micro-batches
  // [lane][step * micro-batches + micro-batch].
  std::vector<double> forward, backward;
};
ComputePairs PairsOfStage(const WhatIfModel& model, int stage);

struct Pause {
  size_t step = 0;  // position in lanes.steps
  size_t op = 0;    // the forward
  size_t lane = 0;
  double usual = 0;   // seconds that this worker's forwards take: their median
  double length = 0;  // seconds above that
};
// Forwards that took 0.1 s and half their median longer than the worker's median, with a backward as usual.
std::vector<Pause> FindPauses(const WhatIfModel& model);

}  // namespace paceline::analysis
