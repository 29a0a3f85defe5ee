// What would the job's steps take without stragglers? The what-if study (arXiv 2505.05713): T with the measured
// durations and no gaps, T_ideal with every duration at its type's ideal, S = T / T_ideal, and how much of it comes
// back when only one data-parallel rank, one stage or one kind of operation keeps its measured durations.
//
// Pure and parallel over steps; called by `pacectl whatif` and tests. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/whatif/dependency_graph.h"
#include "analysis/whatif/lanes.h"
#include "analysis/whatif/model.h"
#include "analysis/whatif/trace.h"
#include "lib/base/result.h"

namespace paceline::analysis {

struct WhatIfOptions {
  // Slowdowns below are not decomposed: there is nothing to explain.
  double decompose_threshold = 1.03;
  int threads = 1;  // 1 or more
};

// Ratios to the better time, one per part (a rank, a stage, a family of operations).
struct Decomposition {
  std::vector<std::string> parts;
  std::vector<double> ratio;                  // per part, of the mean step times
  std::vector<std::vector<double>> per_step;  // [step][part]
};

// How much of the slowdown is due to some workers: with them made ideal (removed from T), and with only them as
// measured (added to T_ideal). Seconds are means over steps.
struct Attribution {
  double removed_seconds = 0;
  double added_seconds = 0;
  double removed = 0;  // (T - removed_seconds) / (T - T_ideal); M_W or M_S
  double added = 0;    // (added_seconds - T_ideal) / (T - T_ideal)
};

struct WhatIfResult {
  JobShape shape;
  std::vector<int64_t> steps;
  std::vector<int64_t> left_out_steps;

  std::vector<double> measured;   // seconds per step
  std::vector<double> simulated;  // the same without launch delays: T
  double ideal = 0;               // seconds: T_ideal, the same for each step

  double launch_slowdown = 1;  // mean measured / mean T: what the model does not cover
  double slowdown = 1;         // S = mean T / T_ideal

  // Against T_ideal; absent when S is below the threshold.
  std::optional<Decomposition> by_dp_rank, by_stage, by_type;
  // Launch delays against T; absent when launch_slowdown is below the threshold, or for by_dp_rank when there are more
  // than kMaxLaunchRanks ranks (quadratic).
  std::optional<Decomposition> launch_by_dp_rank, launch_by_stage, launch_by_type;
  static constexpr int kMaxLaunchRanks = 128;

  // S_w per worker, [dp_rank][stage]: min of its rank's and its stage's ratio. Empty without the decompositions.
  std::vector<std::vector<double>> worker_slowdown;
  // The slowest 3 % of the workers as (dp_rank, stage), slowest first, and what they explain (M_W).
  std::vector<std::pair<int, int>> slowest_workers;
  std::optional<Attribution> by_slowest_workers;
  std::optional<Attribution> by_last_stage;  // M_S; absent when T equals T_ideal

  double waste() const { return slowdown > 0 ? 1 - 1 / slowdown : 0; }
};

// kInvalidArgument for a trace that does not hang together.
Result<WhatIfResult> AnalyzeWhatIf(const StepTrace& trace, const WhatIfOptions& options);
// The same with the model of `trace` already built. kInvalidArgument when the operations take no time at all.
Result<WhatIfResult> AnalyzeModel(const StepTrace& trace, const WhatIfModel& model, const WhatIfOptions& options);

// "What if these workers, given as (dp_rank, stage), were ideal, and what if only they were not?"
Attribution ExplainWorkers(const DependencyGraph& graph, const Lanes& lanes,
                           const std::vector<std::pair<int, int>>& workers, int threads);

}  // namespace paceline::analysis
