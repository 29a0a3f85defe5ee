#include "analysis/whatif/lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline::analysis {
namespace {

constexpr double kClockFault = -10e-3;  // seconds: what is below is no time, but a clock that was off

double AtLeastZero(double seconds) { return seconds <= kClockFault ? 0 : seconds; }

// Starts and ends as measured, [step][op][lane]; not a number where the trace has no row.
struct Measured {
  std::vector<float> start;
  std::vector<float> duration;
};

class Layout {
 public:
  Layout(const StepTrace& trace, const DependencyGraph& graph) : trace_(trace), graph_(graph) {
    lanes_.ops = graph.ops.size();
    lanes_.lanes = static_cast<size_t>(trace.shape.dp_size);
  }

  Result<Lanes> Run() {
    for (size_t row = 0; row < trace_.rows(); row++) {  // runs of rows share their step
      if (row == 0 || trace_.step[row] != trace_.step[row - 1]) all_steps_.push_back(trace_.step[row]);
    }
    std::sort(all_steps_.begin(), all_steps_.end());
    all_steps_.erase(std::unique(all_steps_.begin(), all_steps_.end()), all_steps_.end());
    Place();
    RETURN_IF_ERROR(KeepWholeSteps());
    ComputeWork();
    measured_ = {};
    ComputeIdeals();
    return std::move(lanes_);
  }

 private:
  size_t StepBytes() const { return lanes_.ops * lanes_.lanes; }

  // Where the first op of each stage and type stands; sequence numbers count up from there but for gaps.
  void IndexOps() {
    first_op_.assign(static_cast<size_t>(graph_.pp_size) * kOpTypes, -1);
    for (size_t op = graph_.ops.size(); op-- > 0;) first_op_[KeyOf(graph_.ops[op])] = static_cast<int>(op);
  }
  static size_t KeyOf(const GraphOp& op) {
    return static_cast<size_t>(op.stage) * kOpTypes + static_cast<size_t>(op.type);
  }
  int FindOp(OpType type, int16_t stage, int32_t seq) const {
    const int first = first_op_[static_cast<size_t>(stage) * kOpTypes + static_cast<size_t>(type)];
    const auto guess = static_cast<size_t>(int64_t{first} + seq);
    if (first < 0) return -1;
    if (guess < graph_.ops.size()) {
      const GraphOp& op = graph_.ops[guess];
      if (op.type == type && op.stage == stage && op.seq == seq) return static_cast<int>(guess);
    }
    return graph_.Find(type, stage, seq);
  }

  void Place() {
    IndexOps();
    measured_.start.assign(all_steps_.size() * StepBytes(), std::numeric_limits<float>::quiet_NaN());
    measured_.duration.assign(measured_.start.size(), 0);
    is_foreign_.assign(all_steps_.size(), false);
    size_t step = 0;
    for (size_t row = 0; row < trace_.rows(); row++) {
      if (all_steps_[step] != trace_.step[row]) {
        step = static_cast<size_t>(std::lower_bound(all_steps_.begin(), all_steps_.end(), trace_.step[row]) -
                                   all_steps_.begin());
      }
      const int op = FindOp(trace_.type[row], trace_.stage[row], trace_.seq[row]);
      if (op < 0) {
        is_foreign_[step] = true;  // an operation that the model step lacks
        continue;
      }
      const size_t cell =
          (step * lanes_.ops + static_cast<size_t>(op)) * lanes_.lanes + static_cast<size_t>(trace_.dp_rank[row]);
      measured_.start[cell] = trace_.start[row];
      measured_.duration[cell] = trace_.duration[row];
    }
  }

  Status KeepWholeSteps() {
    size_t kept = 0;
    std::string why;
    for (size_t step = 0; step < all_steps_.size(); step++) {
      const auto first = measured_.start.begin() + static_cast<std::ptrdiff_t>(step * StepBytes());
      const auto last = first + static_cast<std::ptrdiff_t>(StepBytes());
      const auto missing = std::find_if(first, last, [](float start) { return std::isnan(start); });
      if (missing != last || is_foreign_[step]) {
        if (why.empty()) why = WhatIsMissing(step, missing == last ? -1 : missing - first);
        lanes_.left_out_steps.push_back(all_steps_[step]);
        continue;
      }
      lanes_.steps.push_back(all_steps_[step]);
      if (kept != step) {
        std::copy(first, last, measured_.start.begin() + static_cast<std::ptrdiff_t>(kept * StepBytes()));
        const auto from = measured_.duration.begin() + static_cast<std::ptrdiff_t>(step * StepBytes());
        std::copy(from, from + static_cast<std::ptrdiff_t>(StepBytes()),
                  measured_.duration.begin() + static_cast<std::ptrdiff_t>(kept * StepBytes()));
      }
      ++kept;
    }
    if (kept == 0) return InvalidArgumentError("no step is whole: " + why);
    measured_.start.resize(kept * StepBytes());
    measured_.duration.resize(kept * StepBytes());
    return Status();
  }

  std::string WhatIsMissing(size_t step, std::ptrdiff_t cell) const {
    if (cell < 0) return fmt::format("step {} has operations that dp_rank 0 of the model step lacks", all_steps_[step]);
    const GraphOp& op = graph_.ops[static_cast<size_t>(cell) / lanes_.lanes];
    return fmt::format("step {} lacks {} {} of stage {}, dp_rank {}", all_steps_[step], NameOf(op.type), op.seq,
                       op.stage, static_cast<size_t>(cell) % lanes_.lanes);
  }

  float Start(size_t step, size_t op, size_t lane) const {
    return measured_.start[(step * lanes_.ops + op) * lanes_.lanes + lane];
  }
  // In the precision of the trace, as the study's own code has it.
  float End(size_t step, size_t op, size_t lane) const {
    const size_t cell = (step * lanes_.ops + op) * lanes_.lanes + lane;
    return measured_.start[cell] + measured_.duration[cell];
  }

  void ComputeWork() {
    lanes_.work.resize(measured_.start.size());
    lanes_.launch_delay.resize(measured_.start.size());
    for (size_t step = 0; step < lanes_.steps.size(); step++) {
      for (const GraphUnit& unit : graph_.units) WorkOfUnit(step, unit);
      DelaysOfStep(step);
    }
  }

  void WorkOfUnit(size_t step, const GraphUnit& unit) {
    std::vector<double> last_start(lanes_.lanes, -std::numeric_limits<double>::infinity());
    for (const int op : unit.ops) {
      for (size_t lane = 0; lane < lanes_.lanes; lane++) {
        last_start[lane] = std::max<double>(last_start[lane], Start(step, static_cast<size_t>(op), lane));
      }
    }
    if (unit.waits_for_dp_ranks) {
      const double latest = *std::max_element(last_start.begin(), last_start.end());
      std::fill(last_start.begin(), last_start.end(), latest);
    }
    for (const int index : unit.ops) {
      const auto op = static_cast<size_t>(index);
      double* work = &lanes_.work[lanes_.CellOf(step, op)];
      const float* duration = &measured_.duration[(step * lanes_.ops + op) * lanes_.lanes];
      for (size_t lane = 0; lane < lanes_.lanes; lane++) {
        work[lane] = unit.is_group ? AtLeastZero(End(step, op, lane) - last_start[lane]) : duration[lane];
      }
    }
  }

  void DelaysOfStep(size_t step) {
    float first_start = std::numeric_limits<float>::infinity(), last_end = -first_start;
    for (size_t op = 0; op < lanes_.ops; op++) {
      for (size_t lane = 0; lane < lanes_.lanes; lane++) {
        first_start = std::min(first_start, Start(step, op, lane));
        last_end = std::max(last_end, End(step, op, lane));
      }
    }
    lanes_.step_seconds.push_back(static_cast<double>(last_end) - first_start);
    for (size_t op = 0; op < lanes_.ops; op++) {
      float* delays = &lanes_.launch_delay[lanes_.CellOf(step, op)];
      for (size_t lane = 0; lane < lanes_.lanes; lane++) {
        double ready = graph_.dependencies[op].empty() ? first_start : -std::numeric_limits<double>::infinity();
        for (const int dependency : graph_.dependencies[op]) {
          ready = std::max<double>(ready, End(step, static_cast<size_t>(dependency), lane));
        }
        delays[lane] = static_cast<float>(AtLeastZero(Start(step, op, lane) - ready));
      }
    }
  }

  void ComputeIdeals() {
    for (int type = 0; type < kOpTypes; type++) {
      const auto op_type = static_cast<OpType>(type);
      std::vector<double> cells;
      for (size_t step = 0; step < lanes_.steps.size(); step++) {
        for (size_t op = 0; op < lanes_.ops; op++) {
          if (graph_.ops[op].type != op_type) continue;
          const double* row = lanes_.Work(step, op);
          cells.insert(cells.end(), row, row + lanes_.lanes);
        }
      }
      if (!cells.empty())
        lanes_.ideal[static_cast<size_t>(type)] = IsCommunication(op_type) ? Median(cells) : Mean(cells);
    }
  }

  static double Mean(const std::vector<double>& cells) {
    double sum = 0;
    for (const double cell : cells) sum += cell;
    return sum / static_cast<double>(cells.size());
  }

  static double Median(std::vector<double>& cells) {
    const auto middle = cells.begin() + static_cast<std::ptrdiff_t>(cells.size() / 2);
    std::nth_element(cells.begin(), middle, cells.end());
    if (cells.size() % 2 == 1) return *middle;
    return (*middle + *std::max_element(cells.begin(), middle)) / 2;
  }

  const StepTrace& trace_;
  const DependencyGraph& graph_;
  Lanes lanes_;
  std::vector<int64_t> all_steps_;
  Measured measured_;
  std::vector<bool> is_foreign_;
  std::vector<int> first_op_;
};

}  // namespace

Result<Lanes> LayOutLanes(const StepTrace& trace, const DependencyGraph& graph) { return Layout(trace, graph).Run(); }

}  // namespace paceline::analysis
