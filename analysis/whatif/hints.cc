#include "analysis/whatif/hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "analysis/whatif/pauses.h"

namespace paceline::analysis {
namespace {

constexpr double kHalf = 0.5;            // share of the slowdown
constexpr double kCorrelation = 0.9;     // the study's sign of uneven sequences
constexpr double kMinScatter = 0.02;     // coefficient of variation below which a correlation says nothing
constexpr double kPausingWorkers = 0.5;  // share of the workers that pause at some step
constexpr double kNetworkShare = 0.3;

// Share of the workers that had a forward-only pause, provided that the pauses fell on differing steps.
double PausingWorkers(const WhatIfModel& model) {
  std::set<size_t> steps;
  std::set<std::pair<int, size_t>> workers;
  for (const Pause& pause : FindPauses(model)) {
    steps.insert(pause.step);
    workers.emplace(model.graph.ops[pause.op].stage, pause.lane);
  }
  if (steps.size() < 2) return 0;
  const size_t all = model.lanes.lanes * static_cast<size_t>(model.graph.pp_size);
  return static_cast<double>(workers.size()) / static_cast<double>(all);
}

std::string WorkerList(const WhatIfResult& result) {
  std::string text;
  for (const auto& [dp_rank, stage] : result.slowest_workers) {
    if (text.size() > 200) return text + ", ...";
    text += fmt::format("{}dp {} stage {}", text.empty() ? "" : ", ", dp_rank, stage);
  }
  return text;
}

void AddNetwork(const WhatIfResult& result, std::vector<CauseHint>& hints) {
  if (!result.by_type || result.slowdown <= 1) return;
  for (size_t i = 0; i < result.by_type->parts.size(); i++) {
    const std::string& part = result.by_type->parts[i];
    const bool is_network = part == "forward-pp-comm" || part == "backward-pp-comm" || part == "params-all-gather" ||
                            part == "grads-reduce-scatter" || part == "separate-grads-all-reduce" ||
                            part == "embedding-grads-all-reduce";
    const double share = (result.by_type->ratio[i] - 1) / (result.slowdown - 1);
    if (!is_network || share < kNetworkShare) continue;
    hints.push_back({"network", share, kNetworkShare,
                     fmt::format("{} alone brings back {:.0f} % of the slowdown: look at the links and switches of the "
                                 "slow ranks, not at their GPUs.",
                                 part, share * 100)});
  }
}

}  // namespace

double ForwardBackwardCorrelation(const WhatIfModel& model) {
  double forward_squares = 0, backward_squares = 0, products = 0, forward_sum = 0, backward_sum = 0;
  size_t count = 0;
  for (int stage = 0; stage < model.graph.pp_size; stage++) {
    const ComputePairs pairs = PairsOfStage(model, stage);
    for (size_t lane = 0; lane < pairs.lanes; lane++) {
      const double* forwards = pairs.forward.data() + lane * pairs.per_lane;
      const double* backwards = pairs.backward.data() + lane * pairs.per_lane;
      const double forward_total = std::accumulate(forwards, forwards + pairs.per_lane, 0.0);
      const double backward_total = std::accumulate(backwards, backwards + pairs.per_lane, 0.0);
      const auto per_lane = static_cast<double>(pairs.per_lane);
      for (size_t i = 0; i < pairs.per_lane; i++) {
        const double forward = forwards[i] - forward_total / per_lane;
        const double backward = backwards[i] - backward_total / per_lane;
        forward_squares += forward * forward;
        backward_squares += backward * backward;
        products += forward * backward;
      }
      forward_sum += forward_total;
      backward_sum += backward_total;
      count += pairs.per_lane;
    }
  }
  if (count < 2 || forward_squares <= 0 || backward_squares <= 0) return 0;
  const auto n = static_cast<double>(count);
  const double forward_scatter = std::sqrt(forward_squares / n) / (forward_sum / n);
  const double backward_scatter = std::sqrt(backward_squares / n) / (backward_sum / n);
  if (forward_scatter < kMinScatter || backward_scatter < kMinScatter) return 0;
  return products / std::sqrt(forward_squares * backward_squares);
}

std::vector<CauseHint> FindCauses(const WhatIfModel& model, const WhatIfResult& result) {
  std::vector<CauseHint> hints;
  if (!result.by_type) return hints;
  if (result.by_slowest_workers && result.by_slowest_workers->removed >= kHalf) {
    hints.push_back({"faulty-worker", result.by_slowest_workers->removed, kHalf,
                     fmt::format("{:.0f} % of the slowdown goes when the slowest workers ({}) are made as fast as the "
                                 "others: check their nodes.",
                                 result.by_slowest_workers->removed * 100, WorkerList(result))});
  }
  if (result.by_last_stage && result.shape.pp_size > 1 && result.by_last_stage->removed >= kHalf) {
    hints.push_back({"last-stage", result.by_last_stage->removed, kHalf,
                     fmt::format("{:.0f} % of the slowdown goes when the last pipeline stage is made as fast as the "
                                 "others: move layers away from it (the loss layer counts as several).",
                                 result.by_last_stage->removed * 100)});
  }
  const double correlation = ForwardBackwardCorrelation(model);
  if (correlation >= kCorrelation) {
    hints.push_back(
        {"sequence-length", correlation, kCorrelation,
         "Micro-batches that are long forward are long backward: sequences of uneven length. Spread them over "
         "the ranks by the sum of squared lengths."});
  }
  const double pausing = PausingWorkers(model);
  if (pausing >= kPausingWorkers) {
    hints.push_back({"garbage-collection", pausing, kPausingWorkers,
                     fmt::format("{:.0f} % of the workers pause forward only, at differing steps: Python's garbage "
                                 "collector. Collect on all ranks at the same planned steps.",
                                 pausing * 100)});
  }
  AddNetwork(result, hints);
  return hints;
}

}  // namespace paceline::analysis
