#include "analysis/whatif/analysis.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

#include "analysis/whatif/mean.h"
#include "analysis/whatif/parallel_steps.h"
#include "analysis/whatif/simulator.h"

namespace paceline::analysis {
namespace {

// Plays some neighbouring steps at once, one scenario at a time: seconds per step. A player belongs to one thread.
class StepPlayer {
 public:
  StepPlayer(const DependencyGraph& graph, const Lanes& lanes) : graph_(graph), lanes_(lanes) {}

  // The steps to play from now on.
  void Take(size_t first, size_t count) {
    if (count != count_) {
      simulator_.emplace(graph_, lanes_.lanes * count, lanes_.lanes);
      pairs_.reset();
    }
    first_ = first;
    count_ = count;
  }

  double Ideal(size_t op) const { return lanes_.ideal[static_cast<size_t>(graph_.ops[op].type)]; }

  // `is_real(op)`: whether all lanes of the op keep their measured time.
  template <typename Predicate>
  const std::vector<double>& ByOp(const Predicate& is_real) {
    simulator_->Run([&](size_t op, double* row) { FillRow(op, is_real(op), row); });
    return simulator_->group_ends();
  }

  // `is_real(stage, lane)`.
  template <typename Predicate>
  const std::vector<double>& ByWorker(const Predicate& is_real) {
    simulator_->Run([&](size_t op, double* row) {
      const double* real = lanes_.Work(first_, op);
      const double ideal = Ideal(op);
      for (size_t step = 0; step < count_; step++) {
        for (size_t lane = 0; lane < lanes_.lanes; lane++, row++, real++) {
          *row = is_real(graph_.ops[op].stage, lane) ? *real : ideal;
        }
      }
    });
    return simulator_->group_ends();
  }

  // Measured times, and measured launch delays where `has_delay(op, lane)`.
  template <typename Predicate>
  const std::vector<double>& WithDelays(const Predicate& has_delay) {
    simulator_->Run([&](size_t op, double* row) { FillRow(op, true, row); },
                    [&](size_t op, double* row) {
                      const float* delays = lanes_.LaunchDelay(first_, op);
                      for (size_t step = 0; step < count_; step++) {
                        for (size_t lane = 0; lane < lanes_.lanes; lane++, row++, delays++) {
                          *row = has_delay(op, lane) ? *delays : 0;
                        }
                      }
                    });
    return simulator_->group_ends();
  }

  // For each data-parallel rank: only it as measured; [step][rank]. The others are all alike then, so that two lanes
  // stand for a whole scenario and all scenarios fit into one run.
  const std::vector<double>& ByDpRank() {
    const size_t per_group = lanes_.lanes > 1 ? 2 : 1;
    if (!pairs_) pairs_.emplace(graph_, lanes_.lanes * count_ * per_group, per_group);
    pairs_->Run([&](size_t op, double* row) {
      const double* real = lanes_.Work(first_, op);
      const double ideal = Ideal(op);
      for (size_t i = 0; i < lanes_.lanes * count_; i++) {
        row[i * per_group] = real[i];
        if (per_group == 2) row[i * per_group + 1] = ideal;
      }
    });
    return pairs_->group_ends();
  }

 private:
  void FillRow(size_t op, bool is_real, double* row) const {
    if (is_real) {
      std::copy_n(lanes_.Work(first_, op), lanes_.lanes * count_, row);
    } else {
      std::fill_n(row, lanes_.lanes * count_, Ideal(op));
    }
  }

  const DependencyGraph& graph_;
  const Lanes& lanes_;
  size_t first_ = 0;
  size_t count_ = 0;
  std::optional<Simulator> simulator_;
  std::optional<Simulator> pairs_;
};

// Steps that are played at once: as many as keep the rows of an op long enough to be worth a call, and all threads
// busy.
size_t StepsAtOnce(const Lanes& lanes, int threads) {
  constexpr size_t kRow = 64;  // lanes
  const size_t per_thread = lanes.steps.size() / static_cast<size_t>(std::max(threads, 1));
  return std::clamp<size_t>(kRow / lanes.lanes, 1, std::max<size_t>(per_thread, 1));
}

// Calls `body(player, first, count)` for all steps, some at once, on `threads` threads.
template <typename Body>
void PlayEachStep(const DependencyGraph& graph, const Lanes& lanes, int threads, const Body& body) {
  const size_t at_once = StepsAtOnce(lanes, threads);
  ForEachStep((lanes.steps.size() + at_once - 1) / at_once, threads, [&] {
    return [&, at_once, player = std::make_unique<StepPlayer>(graph, lanes)](size_t batch) {
      const size_t first = batch * at_once;
      const size_t count = std::min(at_once, lanes.steps.size() - first);
      player->Take(first, count);
      body(*player, first, count);
    };
  });
}

// T_ideal, the same for each step.
double PlayIdeal(const DependencyGraph& graph, const Lanes& lanes) {
  StepPlayer player(graph, lanes);
  player.Take(0, 1);
  return player.ByOp([](size_t) { return false; }).front();
}

struct PartTimes {
  std::vector<std::string> parts;
  std::vector<std::vector<double>> seconds;  // [step][part]

  // `values` of one part, for the steps from `first` on.
  void Set(size_t first, size_t part, const std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); i++) seconds[first + i][part] = values[i];
  }
};

Decomposition Against(const PartTimes& times, const std::vector<double>& base) {
  Decomposition result;
  result.parts = times.parts;
  const double base_mean = Mean(base);
  for (size_t part = 0; part < times.parts.size(); part++) {
    double sum = 0;
    for (const std::vector<double>& step : times.seconds) sum += step[part];
    result.ratio.push_back(sum / static_cast<double>(times.seconds.size()) / base_mean);
  }
  for (size_t step = 0; step < times.seconds.size(); step++) {
    std::vector<double> ratios;
    for (const double seconds : times.seconds[step]) ratios.push_back(seconds / base[step]);
    result.per_step.push_back(std::move(ratios));
  }
  return result;
}

PartTimes EmptyTimes(std::vector<std::string> parts, size_t steps) {
  PartTimes times{std::move(parts), {}};
  times.seconds.assign(steps, std::vector<double>(times.parts.size()));
  return times;
}

std::vector<std::string> Numbers(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; i++) names.push_back(std::to_string(i));
  return names;
}

class Analyzer {
 public:
  Analyzer(const DependencyGraph& graph, const Lanes& lanes, const StepTrace& trace, const WhatIfOptions& options)
      : graph_(graph), lanes_(lanes), trace_(trace), options_(options) {}

  WhatIfResult Run() {
    result_.shape = trace_.shape;
    result_.steps = lanes_.steps;
    result_.left_out_steps = lanes_.left_out_steps;
    result_.measured = lanes_.step_seconds;
    result_.simulated.resize(lanes_.steps.size());
    PlayEachStep(graph_, lanes_, options_.threads, [&](StepPlayer& player, size_t first, size_t) {
      const std::vector<double>& seconds = player.ByOp([](size_t) { return true; });
      std::copy(seconds.begin(), seconds.end(), result_.simulated.begin() + static_cast<std::ptrdiff_t>(first));
    });
    result_.ideal = PlayIdeal(graph_, lanes_);
    result_.launch_slowdown = Mean(result_.measured) / Mean(result_.simulated);
    result_.slowdown = Mean(result_.simulated) / result_.ideal;
    if (result_.slowdown >= options_.decompose_threshold) DecomposeSlowdown();
    if (result_.launch_slowdown >= options_.decompose_threshold) DecomposeLaunchDelays();
    if (result_.by_dp_rank) RankWorkers();
    std::vector<std::pair<int, int>> last_stage;
    for (int lane = 0; lane < static_cast<int>(lanes_.lanes); lane++) last_stage.emplace_back(lane, graph_.pp_size - 1);
    if (Mean(result_.simulated) > result_.ideal) {
      result_.by_last_stage = ExplainWorkers(graph_, lanes_, last_stage, options_.threads);
    }
    return std::move(result_);
  }

 private:
  // The families of the operations that the trace has, and for each op its index among them.
  std::vector<std::string> Families(std::vector<size_t>& family_of) const {
    std::map<std::string, size_t> index;
    for (const GraphOp& op : graph_.ops) index.emplace(FamilyOf(op.type), 0);
    std::vector<std::string> names;
    for (auto& [name, position] : index) {
      position = names.size();
      names.push_back(name);
    }
    for (const GraphOp& op : graph_.ops) family_of.push_back(index.at(std::string(FamilyOf(op.type))));
    return names;
  }

  void DecomposeSlowdown() {
    const size_t steps = lanes_.steps.size();
    std::vector<size_t> family_of;
    PartTimes by_rank = EmptyTimes(Numbers(lanes_.lanes), steps);
    PartTimes by_stage = EmptyTimes(Numbers(static_cast<size_t>(graph_.pp_size)), steps);
    PartTimes by_type = EmptyTimes(Families(family_of), steps);
    PlayEachStep(graph_, lanes_, options_.threads, [&](StepPlayer& player, size_t first, size_t) {
      const std::vector<double>& ranks = player.ByDpRank();
      for (size_t i = 0; i < ranks.size(); i++) by_rank.seconds[first + i / lanes_.lanes][i % lanes_.lanes] = ranks[i];
      for (size_t stage = 0; stage < by_stage.parts.size(); stage++) {
        by_stage.Set(first, stage,
                     player.ByOp([&](size_t op) { return static_cast<size_t>(graph_.ops[op].stage) == stage; }));
      }
      for (size_t family = 0; family < by_type.parts.size(); family++) {
        by_type.Set(first, family, player.ByOp([&](size_t op) { return family_of[op] == family; }));
      }
    });
    const std::vector<double> base(steps, result_.ideal);
    result_.by_dp_rank = Against(by_rank, base);
    result_.by_stage = Against(by_stage, base);
    result_.by_type = Against(by_type, base);
  }

  // The first operation of a stage waits for the host (data loading): a part of its own, as in the study's code.
  bool IsFirstOp(size_t op) const {
    const GraphOp& at = graph_.ops[op];
    return at.seq == 0 && at.type == (at.stage == 0 ? OpType::kForwardCompute : OpType::kForwardRecv);
  }

  void DecomposeLaunchDelays() {
    const size_t steps = lanes_.steps.size();
    std::vector<size_t> family_of;
    std::vector<std::string> families = Families(family_of);
    families.emplace_back("first-op");
    for (size_t op = 0; op < graph_.ops.size(); op++) {
      if (IsFirstOp(op)) family_of[op] = families.size() - 1;
    }
    const bool has_ranks = lanes_.lanes <= static_cast<size_t>(WhatIfResult::kMaxLaunchRanks);
    PartTimes by_rank = EmptyTimes(Numbers(has_ranks ? lanes_.lanes : 0), steps);
    PartTimes by_stage = EmptyTimes(Numbers(static_cast<size_t>(graph_.pp_size)), steps);
    PartTimes by_type = EmptyTimes(std::move(families), steps);
    PlayEachStep(graph_, lanes_, options_.threads, [&](StepPlayer& player, size_t first, size_t) {
      for (size_t rank = 0; rank < by_rank.parts.size(); rank++) {
        by_rank.Set(first, rank, player.WithDelays([&](size_t, size_t lane) { return lane == rank; }));
      }
      for (size_t stage = 0; stage < by_stage.parts.size(); stage++) {
        by_stage.Set(first, stage, player.WithDelays([&](size_t op, size_t) {
          return static_cast<size_t>(graph_.ops[op].stage) == stage;
        }));
      }
      for (size_t family = 0; family < by_type.parts.size(); family++) {
        by_type.Set(first, family, player.WithDelays([&](size_t op, size_t) { return family_of[op] == family; }));
      }
    });
    if (has_ranks) result_.launch_by_dp_rank = Against(by_rank, result_.simulated);
    result_.launch_by_stage = Against(by_stage, result_.simulated);
    result_.launch_by_type = Against(by_type, result_.simulated);
  }

  void RankWorkers() {
    struct Worker {
      double slowdown;
      int32_t rank;
      int dp_rank, stage;
    };
    const auto stages = static_cast<size_t>(graph_.pp_size);
    std::vector<int32_t> rank_of(lanes_.lanes * stages, -1);  // [lane][stage]
    for (size_t row = 0; row < trace_.rows(); row++) {
      rank_of[static_cast<size_t>(trace_.dp_rank[row]) * stages + static_cast<size_t>(trace_.stage[row])] =
          trace_.rank[row];
    }
    result_.worker_slowdown.assign(lanes_.lanes, std::vector<double>(stages));
    std::vector<Worker> workers;
    for (size_t lane = 0; lane < lanes_.lanes; lane++) {
      for (size_t stage = 0; stage < stages; stage++) {
        const double slowdown = std::min(result_.by_dp_rank->ratio[lane], result_.by_stage->ratio[stage]);
        result_.worker_slowdown[lane][stage] = slowdown;
        workers.push_back({slowdown, rank_of[lane * stages + stage], static_cast<int>(lane), static_cast<int>(stage)});
      }
    }
    std::sort(workers.begin(), workers.end(), [](const Worker& a, const Worker& b) {
      return a.slowdown != b.slowdown ? a.slowdown > b.slowdown : a.rank < b.rank;
    });
    constexpr size_t kPercent = 3;
    const size_t count = (workers.size() * kPercent + 99) / 100;
    for (size_t i = 0; i < count; i++) result_.slowest_workers.emplace_back(workers[i].dp_rank, workers[i].stage);
    result_.by_slowest_workers = ExplainWorkers(graph_, lanes_, result_.slowest_workers, options_.threads);
  }

  const DependencyGraph& graph_;
  const Lanes& lanes_;
  const StepTrace& trace_;
  const WhatIfOptions& options_;
  WhatIfResult result_;
};

}  // namespace

Result<WhatIfResult> AnalyzeModel(const StepTrace& trace, const WhatIfModel& model, const WhatIfOptions& options) {
  WhatIfResult result = Analyzer(model.graph, model.lanes, trace, options).Run();
  if (!(result.ideal > 0)) return InvalidArgumentError("the operations take no time at all");
  return result;
}

Result<WhatIfResult> AnalyzeWhatIf(const StepTrace& trace, const WhatIfOptions& options) {
  ASSIGN_OR_RETURN(const WhatIfModel model, BuildWhatIfModel(trace));
  return AnalyzeModel(trace, model, options);
}

Attribution ExplainWorkers(const DependencyGraph& graph, const Lanes& lanes,
                           const std::vector<std::pair<int, int>>& workers, int threads) {
  const auto stages = static_cast<size_t>(graph.pp_size);
  std::vector<bool> is_chosen(lanes.lanes * stages, false);
  for (const auto& [dp_rank, stage] : workers) {
    is_chosen[static_cast<size_t>(dp_rank) * stages + static_cast<size_t>(stage)] = true;
  }
  const auto chosen = [&](int16_t stage, size_t lane) { return is_chosen[lane * stages + static_cast<size_t>(stage)]; };
  const size_t steps = lanes.steps.size();
  std::vector<double> real(steps), removed(steps), added(steps);
  PlayEachStep(graph, lanes, threads, [&](StepPlayer& player, size_t first, size_t) {
    const auto at = static_cast<std::ptrdiff_t>(first);
    const auto keep = [at](const std::vector<double>& seconds, std::vector<double>& to) {
      std::copy(seconds.begin(), seconds.end(), to.begin() + at);
    };
    keep(player.ByOp([](size_t) { return true; }), real);
    keep(player.ByWorker([&](int16_t stage, size_t lane) { return !chosen(stage, lane); }), removed);
    keep(player.ByWorker([&](int16_t stage, size_t lane) { return chosen(stage, lane); }), added);
  });
  const double ideal = PlayIdeal(graph, lanes);
  Attribution result{Mean(removed), Mean(added), 0, 0};
  const double lost = Mean(real) - ideal;
  if (lost != 0) {
    result.removed = (Mean(real) - result.removed_seconds) / lost;
    result.added = (result.added_seconds - ideal) / lost;
  }
  return result;
}

}  // namespace paceline::analysis
