// Traces of made-up jobs whose step times are known by another way than the analysis computes them: a plain recursion
// over the pipeline's schedule (GPipe order; with model chunks, all micro-batches of one chunk before the next).
#pragma once

#include <functional>
#include <vector>

#include "analysis/whatif/trace.h"

namespace paceline::analysis {

struct SyntheticJob {
  int dp = 2, pp = 4, vpp = 1, micro_batches = 6, steps = 2;
  bool overlaps_dp = false;
  // Seconds.
  double forward = 1, backward = 2, p2p = 0.01, gather = 0.05, scatter = 0.1, tail = 0.02;
  // Factor on a computation: (type, dp_rank, stage, step, seq).
  std::function<double(OpType, int, int, int, int)> scale = [](OpType, int, int, int, int) { return 1.0; };
};

struct PlayedJob {
  StepTrace trace;
  std::vector<double> step_seconds;
};

PlayedJob Play(const SyntheticJob& job);

}  // namespace paceline::analysis
