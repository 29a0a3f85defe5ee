#include "operator/training_run/stage_summary.h"

#include <algorithm>

namespace paceline::operator_ {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// True when the worker has not left `stage` yet.
bool IsStillBefore(const WorkerSpans& worker, StageName stage) {
  return !worker.spans.empty() && !worker.spans.back().end && worker.spans.back().stage <= stage;
}

// Enumerators go from best to least.
StageSource LessExact(StageSource a, StageSource b) { return std::max(a, b); }

std::optional<api::Stage> Summarize(const std::vector<WorkerSpans>& workers, StageName name) {
  api::Stage stage;
  stage.name = name;
  std::vector<double> lengths;
  bool is_open = false;
  for (const WorkerSpans& worker : workers) {
    is_open |= IsStillBefore(worker, name);
    for (const StageSpan& span : worker.spans) {
      if (span.stage != name) continue;
      if (!stage.start || span.begin < *stage.start) stage.start = span.begin;
      if (!span.end) continue;
      const double seconds = ToSeconds(*span.end - span.begin);
      if (lengths.empty() || seconds > *stage.max_seconds) {
        stage.max_seconds = seconds;
        stage.slowest_pod = worker.pod;
        stage.slowest_node = worker.node;
      }
      stage.min_seconds = lengths.empty() ? seconds : std::min(*stage.min_seconds, seconds);
      stage.source = lengths.empty() ? span.source : LessExact(*stage.source, span.source);
      stage.end = stage.end ? std::max(*stage.end, *span.end) : *span.end;
      lengths.push_back(seconds);
    }
  }
  if (!stage.start) return std::nullopt;
  if (is_open) stage.end.reset();
  stage.workers = static_cast<int64_t>(lengths.size());
  if (!lengths.empty()) stage.p50_seconds = Median(std::move(lengths));
  return stage;
}

}  // namespace

std::vector<api::Stage> SummarizeStages(const std::vector<WorkerSpans>& workers) {
  std::vector<api::Stage> stages;
  for (size_t i = 0; i < kStageCount; ++i) {
    if (auto stage = Summarize(workers, static_cast<StageName>(i))) stages.push_back(std::move(*stage));
  }
  return stages;
}

}  // namespace paceline::operator_
