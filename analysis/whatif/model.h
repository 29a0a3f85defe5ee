// A trace made ready for simulation: what waits for what, and how long each operation took in each step. Built once,
// then read by the analysis, by scenarios and by what draws timelines.
//
// Made by whoever has a trace (`pacectl whatif`, AnalyzeWhatIf). Plain value; thread-safe to read.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/whatif/dependency_graph.h"
#include "analysis/whatif/lanes.h"
#include "analysis/whatif/trace.h"
#include "lib/base/result.h"

namespace paceline::analysis {

struct WhatIfModel {
  DependencyGraph graph;
  Lanes lanes;
};

// kInvalidArgument for a trace that does not hang together, saying where. Pure.
Result<WhatIfModel> BuildWhatIfModel(const StepTrace& trace);

// Drops the rows of all other steps; kInvalidArgument when none is left. No `steps` means all.
Result<StepTrace> KeepSteps(StepTrace trace, std::vector<int64_t> steps);

// An operation on a time axis, seconds from the step's begin.
struct TimedOp {
  OpType type = OpType::kForwardCompute;
  int16_t dp_rank = 0;
  int16_t stage = 0;
  int32_t seq = 0;
  double start = 0;
  double end = 0;
};

// The step as it would go with every operation at its ideal: the same in every step and on every data-parallel rank, so
// that dp_rank is 0 throughout. Pure.
std::vector<TimedOp> IdealTimeline(const WhatIfModel& model);

}  // namespace paceline::analysis
