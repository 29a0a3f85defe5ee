#include "analysis/whatif/hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace paceline::analysis {
namespace {

constexpr double kHalf = 0.5;            // share of the slowdown
constexpr double kCorrelation = 0.9;     // the study's sign of uneven sequences
constexpr double kMinScatter = 0.02;     // coefficient of variation below which a correlation says nothing
constexpr double kPauseSeconds = 0.1;    // a garbage collection takes hundreds of milliseconds
constexpr double kPauseShare = 0.5;      // of the median forward
constexpr double kPausingWorkers = 0.5;  // share of the workers that pause at some step
constexpr double kNetworkShare = 0.3;

struct Pair {
  double forward = -1;
  double backward = -1;
};
using WorkerKey = std::pair<int16_t, int16_t>;                                   // dp_rank, stage
using Pairs = std::map<WorkerKey, std::map<std::pair<int64_t, int32_t>, Pair>>;  // (step, seq)

Pairs PairUp(const StepTrace& trace) {
  Pairs pairs;
  for (size_t row = 0; row < trace.rows(); row++) {
    const OpType type = trace.type[row];
    if (type != OpType::kForwardCompute && type != OpType::kBackwardCompute) continue;
    Pair& pair = pairs[{trace.dp_rank[row], trace.stage[row]}][{trace.step[row], trace.seq[row]}];
    (type == OpType::kForwardCompute ? pair.forward : pair.backward) = trace.duration[row];
  }
  return pairs;
}

struct Moments {
  double forward = 0, backward = 0;
  size_t count = 0;
};

Moments MeansOf(const std::map<std::pair<int64_t, int32_t>, Pair>& pairs) {
  Moments means;
  for (const auto& [key, pair] : pairs) {
    if (pair.forward < 0 || pair.backward < 0) continue;
    means.forward += pair.forward;
    means.backward += pair.backward;
    ++means.count;
  }
  if (means.count > 0) {
    means.forward /= static_cast<double>(means.count);
    means.backward /= static_cast<double>(means.count);
  }
  return means;
}

// Workers that had a forward-only pause, provided that the pauses fell on differing steps.
double PausingWorkers(const StepTrace& trace) {
  const Pairs pairs = PairUp(trace);
  size_t pausing = 0;
  std::set<int64_t> steps;
  for (const auto& [worker, list] : pairs) {
    std::vector<double> forwards, backwards;
    for (const auto& [key, pair] : list) {
      forwards.push_back(pair.forward);
      backwards.push_back(pair.backward);
    }
    const auto median = [](std::vector<double>& values) {
      std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
      return values[values.size() / 2];
    };
    const double forward = median(forwards), backward = median(backwards);
    bool has_pause = false;
    for (const auto& [key, pair] : list) {
      const bool is_long = pair.forward > forward + std::max(kPauseSeconds, kPauseShare * forward);
      const bool is_backward_usual = pair.backward < backward * (1 + kPauseShare);
      if (!is_long || !is_backward_usual) continue;
      has_pause = true;
      steps.insert(key.first);
    }
    if (has_pause) ++pausing;
  }
  if (steps.size() < 2 || pairs.empty()) return 0;
  return static_cast<double>(pausing) / static_cast<double>(pairs.size());
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

double ForwardBackwardCorrelation(const StepTrace& trace) {
  double forward_squares = 0, backward_squares = 0, products = 0, forward_sum = 0, backward_sum = 0;
  size_t count = 0;
  for (const auto& [worker, list] : PairUp(trace)) {
    const Moments means = MeansOf(list);
    for (const auto& [key, pair] : list) {
      if (pair.forward < 0 || pair.backward < 0) continue;
      const double forward = pair.forward - means.forward, backward = pair.backward - means.backward;
      forward_squares += forward * forward;
      backward_squares += backward * backward;
      products += forward * backward;
      forward_sum += pair.forward;
      backward_sum += pair.backward;
      ++count;
    }
  }
  if (count < 2 || forward_squares <= 0 || backward_squares <= 0) return 0;
  const auto n = static_cast<double>(count);
  const double forward_scatter = std::sqrt(forward_squares / n) / (forward_sum / n);
  const double backward_scatter = std::sqrt(backward_squares / n) / (backward_sum / n);
  if (forward_scatter < kMinScatter || backward_scatter < kMinScatter) return 0;
  return products / std::sqrt(forward_squares * backward_squares);
}

std::vector<CauseHint> FindCauses(const StepTrace& trace, const WhatIfResult& result) {
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
  const double correlation = ForwardBackwardCorrelation(trace);
  if (correlation >= kCorrelation) {
    hints.push_back(
        {"sequence-length", correlation, kCorrelation,
         "Micro-batches that are long forward are long backward: sequences of uneven length. Spread them over "
         "the ranks by the sum of squared lengths."});
  }
  const double pausing = PausingWorkers(trace);
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
