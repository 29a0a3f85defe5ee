#include "analysis/whatif/pauses.h"

#include <algorithm>
#include <utility>

namespace paceline::analysis {
namespace {

constexpr double kPauseSeconds = 0.1;  // a garbage collection takes hundreds of milliseconds
constexpr double kPauseShare = 0.5;    // of the median forward

double Median(const double* values, size_t count) {
  std::vector<double> sorted(values, values + count);
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

void AddPausesOfLane(const ComputePairs& pairs, size_t lane, std::vector<Pause>& pauses) {
  const double* forward = &pairs.forward[lane * pairs.per_lane];
  const double* backward = &pairs.backward[lane * pairs.per_lane];
  const double longest = *std::max_element(forward, forward + pairs.per_lane);
  if (longest <= kPauseSeconds) return;
  const double usual = Median(forward, pairs.per_lane);
  const double pause_from = usual + std::max(kPauseSeconds, kPauseShare * usual);
  if (longest <= pause_from) return;
  const double long_backward = Median(backward, pairs.per_lane) * (1 + kPauseShare);
  const size_t micro_batches = pairs.forward_ops.size();
  for (size_t i = 0; i < pairs.per_lane; i++) {
    if (forward[i] <= pause_from || backward[i] >= long_backward) continue;
    pauses.push_back({i / micro_batches, pairs.forward_ops[i % micro_batches], lane, usual, forward[i] - usual});
  }
}

}  // namespace

ComputePairs PairsOfStage(const WhatIfModel& model, int stage) {
  std::vector<std::pair<size_t, size_t>> ops;
  ComputePairs pairs;
  for (size_t op = 0; op < model.graph.ops.size(); op++) {
    const GraphOp& at = model.graph.ops[op];
    if (at.stage != stage || at.type != OpType::kForwardCompute) continue;
    const int backward = model.graph.Find(OpType::kBackwardCompute, stage, at.seq);
    if (backward < 0) continue;
    ops.emplace_back(op, static_cast<size_t>(backward));
    pairs.forward_ops.push_back(op);
  }
  pairs.lanes = model.lanes.lanes;
  pairs.per_lane = model.lanes.steps.size() * ops.size();
  pairs.forward.resize(pairs.lanes * pairs.per_lane);
  pairs.backward.resize(pairs.forward.size());
  for (size_t step = 0; step < model.lanes.steps.size(); step++) {
    for (size_t i = 0; i < ops.size(); i++) {
      const double* forward = model.lanes.Work(step, ops[i].first);
      const double* backward = model.lanes.Work(step, ops[i].second);
      for (size_t lane = 0; lane < pairs.lanes; lane++) {
        const size_t at = lane * pairs.per_lane + step * ops.size() + i;
        pairs.forward[at] = forward[lane];
        pairs.backward[at] = backward[lane];
      }
    }
  }
  return pairs;
}

std::vector<Pause> FindPauses(const WhatIfModel& model) {
  std::vector<Pause> pauses;
  for (int stage = 0; stage < model.graph.pp_size; stage++) {
    const ComputePairs pairs = PairsOfStage(model, stage);
    if (pairs.per_lane == 0) continue;
    for (size_t lane = 0; lane < pairs.lanes; lane++) AddPausesOfLane(pairs, lane, pauses);
  }
  return pauses;
}

}  // namespace paceline::analysis
