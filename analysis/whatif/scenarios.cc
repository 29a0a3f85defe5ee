#include "analysis/whatif/scenarios.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "analysis/whatif/mean.h"
#include "analysis/whatif/parallel_steps.h"
#include "analysis/whatif/pauses.h"
#include "analysis/whatif/simulator.h"

namespace paceline::analysis {
namespace {

constexpr size_t kNamedWorkers = 6;  // the others are counted

// Seconds per step on `lanes` data-parallel ranks, where `fill(step, op, row)` writes what an operation takes on each.
template <typename Fill>
std::vector<double> PlaySteps(const WhatIfModel& model, size_t lanes, int threads, const Fill& fill) {
  std::vector<double> seconds(model.lanes.steps.size());
  ForEachStep(seconds.size(), threads, [&] {
    return [&, simulator = std::make_unique<Simulator>(model.graph, lanes, lanes)](size_t step) {
      simulator->Run([&](size_t op, double* row) { fill(step, op, row); });
      seconds[step] = simulator->group_ends().front();
    };
  });
  return seconds;
}

class Scenarios {
 public:
  Scenarios(const StepTrace& trace, const WhatIfModel& model, const WhatIfResult& result, int threads)
      : trace_(trace), model_(model), lanes_(model.lanes), result_(result), threads_(threads) {}

  Result<std::vector<Scenario>> Run(const ScenarioRequest& request) {
    if (!request.ideal_workers.empty()) RETURN_IF_ERROR(IdealWorkers(request.ideal_workers));
    if (!request.removed_ranks.empty()) RETURN_IF_ERROR(WithoutRanks(request.removed_ranks));
    if (!request.moves.empty()) RETURN_IF_ERROR(MovedLayers(request.moves, request.layers));
    if (request.collected_every) RETURN_IF_ERROR(PlannedCollections(*request.collected_every));
    return std::move(scenarios_);
  }

 private:
  void Add(std::string kind, std::string text, std::vector<double> seconds, double share_of_ranks) {
    Scenario scenario{std::move(kind), std::move(text), std::move(seconds), 0, 1, 1};
    scenario.mean_seconds = Mean(scenario.seconds);
    scenario.speedup = Mean(result_.simulated) / scenario.mean_seconds * share_of_ranks;
    scenario.slowdown = scenario.mean_seconds / result_.ideal;
    scenarios_.push_back(std::move(scenario));
  }

  Status IdealWorkers(const std::vector<std::pair<int, int>>& workers) {
    const auto stages = static_cast<size_t>(model_.graph.pp_size);
    std::vector<bool> is_ideal(lanes_.lanes * stages, false);
    std::string names;
    for (size_t i = 0; i < workers.size(); i++) {
      const auto [dp_rank, stage] = workers[i];
      if (dp_rank < 0 || stage < 0 || static_cast<size_t>(dp_rank) >= lanes_.lanes ||
          static_cast<size_t>(stage) >= stages) {
        return InvalidArgumentError(fmt::format("the job has no worker dp {} stage {}", dp_rank, stage));
      }
      is_ideal[static_cast<size_t>(dp_rank) * stages + static_cast<size_t>(stage)] = true;
      if (i < kNamedWorkers) names += fmt::format("{}dp {} stage {}", i == 0 ? "" : ", ", dp_rank, stage);
    }
    if (workers.size() > kNamedWorkers) names += fmt::format(" and {} more", workers.size() - kNamedWorkers);
    auto seconds = PlaySteps(model_, lanes_.lanes, threads_, [&](size_t step, size_t op, double* row) {
      const double* real = lanes_.Work(step, op);
      const GraphOp& at = model_.graph.ops[op];
      const double ideal = lanes_.ideal[static_cast<size_t>(at.type)];
      for (size_t lane = 0; lane < lanes_.lanes; lane++) {
        row[lane] = is_ideal[lane * stages + static_cast<size_t>(at.stage)] ? ideal : real[lane];
      }
    });
    Add("ideal-workers", names + " as fast as the others", std::move(seconds), 1);
    return Status();
  }

  // A worker stands for its tensor-parallel group: its global rank and those up to the next worker's.
  Status WithoutRanks(const std::vector<int32_t>& ranks) {
    const int64_t group = int64_t{trace_.shape.tp_size} * trace_.shape.dsp_size;
    std::vector<bool> is_gone(lanes_.lanes, false);
    std::vector<int32_t> sorted = ranks;
    std::sort(sorted.begin(), sorted.end());
    if (sorted.front() < 0 || sorted.back() >= trace_.shape.world_size) {
      return InvalidArgumentError(
          fmt::format("ranks {} to {} with a world of {}", sorted.front(), sorted.back(), trace_.shape.world_size));
    }
    for (size_t row = 0; row < trace_.rows(); row++) {
      const int32_t rank = trace_.rank[row];
      const auto first = std::lower_bound(sorted.begin(), sorted.end(), rank);
      if (first != sorted.end() && *first < rank + group) is_gone[static_cast<size_t>(trace_.dp_rank[row])] = true;
    }
    std::vector<size_t> kept;
    for (size_t lane = 0; lane < lanes_.lanes; lane++) {
      if (!is_gone[lane]) kept.push_back(lane);
    }
    if (kept.empty()) return InvalidArgumentError("without these ranks no data-parallel rank is left");
    if (kept.size() == lanes_.lanes) return InvalidArgumentError("none of these ranks has a worker in the trace");
    auto seconds = PlaySteps(model_, kept.size(), threads_, [&](size_t step, size_t op, double* row) {
      const double* real = lanes_.Work(step, op);
      for (size_t i = 0; i < kept.size(); i++) row[i] = real[kept[i]];
    });
    const size_t gone = lanes_.lanes - kept.size();
    Add("without-ranks",
        fmt::format("without {} ranks: {} of {} data-parallel ranks leave, and their share of each batch with them",
                    sorted.size(), gone, lanes_.lanes),
        std::move(seconds), static_cast<double>(kept.size()) / static_cast<double>(lanes_.lanes));
    return Status();
  }

  // Mean seconds of the computations of a stage, forward and backward.
  double MeanWork(OpType type, int stage) const {
    double sum = 0;
    size_t count = 0;
    for (size_t op = 0; op < model_.graph.ops.size(); op++) {
      if (model_.graph.ops[op].type != type || model_.graph.ops[op].stage != stage) continue;
      for (size_t step = 0; step < lanes_.steps.size(); step++) {
        const double* row = lanes_.Work(step, op);
        sum += std::accumulate(row, row + lanes_.lanes, 0.0);
        count += lanes_.lanes;
      }
    }
    return count == 0 ? 0 : sum / static_cast<double>(count);
  }

  // Layers of each stage after the moves, checked.
  Result<std::vector<int>> LayersAfter(const std::vector<LayerMove>& moves, const std::vector<int>& layers) const {
    if (layers.size() != static_cast<size_t>(model_.graph.pp_size)) {
      return InvalidArgumentError(
          fmt::format("layers of {} stages are given, the job has {}", layers.size(), model_.graph.pp_size));
    }
    if (*std::min_element(layers.begin(), layers.end()) < 1) return InvalidArgumentError("a stage has no layers");
    std::vector<int> after = layers;
    for (const LayerMove& move : moves) {
      for (const int stage : {move.from, move.to}) {
        if (stage < 0 || stage >= model_.graph.pp_size) {
          return InvalidArgumentError(fmt::format("the job has no stage {}", stage));
        }
      }
      after[static_cast<size_t>(move.from)] -= move.count;
      after[static_cast<size_t>(move.to)] += move.count;
      if (move.count < 1 || after[static_cast<size_t>(move.from)] < 0) {
        return InvalidArgumentError(fmt::format("{} layers cannot be moved from stage {}", move.count, move.from));
      }
    }
    return after;
  }

  // A layer costs what it costs where layers are cheapest: what a stage takes beyond that (the loss, the embedding) is
  // no layer's and stays.
  Status MovedLayers(const std::vector<LayerMove>& moves, const std::vector<int>& layers) {
    ASSIGN_OR_RETURN(const std::vector<int> after, LayersAfter(moves, layers));
    std::vector<double> factor[2];  // forward, backward; per stage
    for (const bool is_forward : {true, false}) {
      std::vector<double> work;
      for (int stage = 0; stage < model_.graph.pp_size; stage++) {
        work.push_back(MeanWork(is_forward ? OpType::kForwardCompute : OpType::kBackwardCompute, stage));
      }
      double per_layer = work[0] / layers[0];
      for (size_t stage = 1; stage < work.size(); stage++) {
        per_layer = std::min(per_layer, work[stage] / layers[stage]);
      }
      for (size_t stage = 0; stage < work.size(); stage++) {
        const double moved = per_layer * (after[stage] - layers[stage]);
        factor[is_forward ? 0 : 1].push_back(work[stage] > 0 ? (work[stage] + moved) / work[stage] : 1);
      }
    }
    auto seconds = PlaySteps(model_, lanes_.lanes, threads_, [&](size_t step, size_t op, double* row) {
      const GraphOp& at = model_.graph.ops[op];
      const auto stage = static_cast<size_t>(at.stage);
      const double by = at.type == OpType::kForwardCompute    ? factor[0][stage]
                        : at.type == OpType::kBackwardCompute ? factor[1][stage]
                                                              : 1;
      const double* real = lanes_.Work(step, op);
      for (size_t lane = 0; lane < lanes_.lanes; lane++) row[lane] = real[lane] * by;
    });
    Add("moved-layers",
        fmt::format("stages of {} layers instead of {}", fmt::join(after, ", "), fmt::join(layers, ", ")),
        std::move(seconds), 1);
    return Status();
  }

  // No pauses in between; every so many steps all ranks pause at once, as long as the usual pause.
  Status PlannedCollections(int every) {
    if (every < 1) return InvalidArgumentError(fmt::format("a collection each {} steps", every));
    const std::vector<Pause> pauses = FindPauses(model_);
    if (pauses.empty()) return InvalidArgumentError("the trace has no forward-only pauses that a plan could take away");
    std::vector<double> lengths;
    std::vector<std::vector<const Pause*>> of_step(lanes_.steps.size());
    for (const Pause& pause : pauses) {
      lengths.push_back(pause.length);
      of_step[pause.step].push_back(&pause);
    }
    const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
    std::nth_element(lengths.begin(), middle, lengths.end());
    const double planned = *middle / every;
    auto seconds = PlaySteps(model_, lanes_.lanes, threads_, [&](size_t step, size_t op, double* row) {
      std::copy_n(lanes_.Work(step, op), lanes_.lanes, row);
      for (const Pause* pause : of_step[step]) {
        if (pause->op == op) row[pause->lane] = pause->usual;
      }
    });
    for (double& step : seconds) step += planned;
    Add("planned-gc",
        fmt::format("{} pauses gone, all ranks collect together each {} steps for {:.0f} ms", pauses.size(), every,
                    *middle * 1000),
        std::move(seconds), 1);
    return Status();
  }

  const StepTrace& trace_;
  const WhatIfModel& model_;
  const Lanes& lanes_;
  const WhatIfResult& result_;
  const int threads_;
  std::vector<Scenario> scenarios_;
};

}  // namespace

Result<std::vector<Scenario>> PlayScenarios(const StepTrace& trace, const WhatIfModel& model,
                                            const WhatIfResult& result, const ScenarioRequest& request, int threads) {
  return Scenarios(trace, model, result, threads).Run(request);
}

}  // namespace paceline::analysis
