#include "analysis/whatif/model.h"

#include <algorithm>
#include <utility>

#include "analysis/whatif/simulator.h"

namespace paceline::analysis {
namespace {

template <typename Column>
void KeepRows(Column& column, const std::vector<bool>& is_kept) {
  size_t kept = 0;
  for (size_t row = 0; row < column.size(); row++) {
    if (is_kept[row]) column[kept++] = column[row];
  }
  column.resize(kept);
}

}  // namespace

Result<WhatIfModel> BuildWhatIfModel(const StepTrace& trace) {
  WhatIfModel model;
  ASSIGN_OR_RETURN(model.graph, BuildDependencyGraph(trace));
  ASSIGN_OR_RETURN(model.lanes, LayOutLanes(trace, model.graph));
  return model;
}

Result<StepTrace> KeepSteps(StepTrace trace, std::vector<int64_t> steps) {
  if (steps.empty()) return trace;
  std::sort(steps.begin(), steps.end());
  std::vector<bool> is_kept(trace.rows());
  for (size_t row = 0; row < trace.rows(); row++) {
    is_kept[row] = std::binary_search(steps.begin(), steps.end(), trace.step[row]);
  }
  KeepRows(trace.dp_rank, is_kept);
  KeepRows(trace.stage, is_kept);
  KeepRows(trace.rank, is_kept);
  KeepRows(trace.step, is_kept);
  KeepRows(trace.type, is_kept);
  KeepRows(trace.start, is_kept);
  KeepRows(trace.duration, is_kept);
  KeepRows(trace.seq, is_kept);
  KeepRows(trace.mc, is_kept);
  KeepRows(trace.gmc, is_kept);
  if (trace.rows() == 0) return InvalidArgumentError("the trace has none of the steps asked for");
  return trace;
}

std::vector<TimedOp> IdealTimeline(const WhatIfModel& model) {
  Simulator simulator(model.graph, 1, 1);
  simulator.Run(
      [&](size_t op, double* row) { *row = model.lanes.ideal[static_cast<size_t>(model.graph.ops[op].type)]; });
  std::vector<TimedOp> timeline;
  timeline.reserve(model.graph.ops.size());
  for (size_t op = 0; op < model.graph.ops.size(); op++) {
    const GraphOp& at = model.graph.ops[op];
    timeline.push_back({at.type, 0, at.stage, at.seq, *simulator.StartsOf(op), *simulator.EndsOf(op)});
  }
  return timeline;
}

}  // namespace paceline::analysis
