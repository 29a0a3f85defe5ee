// "What if" on demand: how long would the steps take with some workers ideal, without a node, with layers moved between
// stages, with the garbage collector on a plan? Each is one more simulation of the model.
//
// Called by `pacectl whatif`. Pure and parallel over steps; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/whatif/analysis.h"
#include "analysis/whatif/model.h"
#include "analysis/whatif/trace.h"
#include "lib/base/result.h"

namespace paceline::analysis {

// `count` layers from one stage to another.
struct LayerMove {
  int from = 0;
  int to = 0;
  int count = 0;
};

// What is empty is not asked.
struct ScenarioRequest {
  std::vector<std::pair<int, int>> ideal_workers;  // (dp_rank, stage)
  // Global ranks, as of a node that is taken away without a replacement: the data-parallel ranks that have a worker
  // there leave the job.
  std::vector<int32_t> removed_ranks;
  std::vector<LayerMove> moves;
  std::vector<int> layers;             // per stage, before the moves; needed by them
  std::optional<int> collected_every;  // steps between planned collections on all ranks at once
};

struct Scenario {
  std::string kind;             // "ideal-workers", "without-ranks", "moved-layers", "planned-gc"
  std::string text;             // what was supposed, for people
  std::vector<double> seconds;  // per step
  double mean_seconds = 0;
  // Mean T over mean_seconds, times the share of the data-parallel ranks that stay: how much more the job gets done.
  double speedup = 1;
  double slowdown = 1;  // mean_seconds / T_ideal: what is left
};

// In the order of the request's fields. kInvalidArgument names what is outside the job, a move that takes more layers
// than there are, and a removal that leaves no rank.
Result<std::vector<Scenario>> PlayScenarios(const StepTrace& trace, const WhatIfModel& model,
                                            const WhatIfResult& result, const ScenarioRequest& request, int threads);

}  // namespace paceline::analysis
