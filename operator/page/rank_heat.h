// How much slower each rank of a run that goes on makes it, window by window: what the job page draws as a heat map.
// One hot line is a sick worker, a hot band its neighbours' node or stage, scatter uneven data.
//
// RankHeat is pure. RankHeatSource finds the paces that it is made from: the leader has them, another replica asks the
// agents, who remember a quarter of an hour, and keeps the picture for a moment so that pages which refresh do not ask
// each time. Thread-safe; the job page calls it.
#pragma once

#include <map>
#include <string>

#include "analysis/slowdown.h"
#include "lib/api/training_run.h"
#include "lib/base/json.h"
#include "lib/base/mutex.h"
#include "lib/kube/cache.h"
#include "operator/incident/trace_source.h"
#include "operator/node_plan/node_reports.h"
#include "operator/straggler/pace_store.h"

namespace paceline::operator_ {

class JobCatalog;

inline constexpr size_t kMaxHeatRanks = 2048;  // those that cost most
inline constexpr int kMaxHeatWindows = 20;

// {"traced": false} without any rank. Else the slowdown of the run and its slow ranks as the metrics have them, and for
// each window and rank by how many thousandths steps would be slower if this rank alone were late; null is not known.
// `options.window` is the length of a window; there are as many as agents remember, up to kMaxHeatWindows.
Json RankHeat(const RunPaces& paces, WallTime now, const analysis::SlowdownOptions& options,
              size_t max_ranks = kMaxHeatRanks);

// All must outlive the source.
struct RankHeatEnvironment {
  const PaceStore& paces;
  const NodeReports& reports;
  const kube::Store<kube::ObjectView>& runs;
  const kube::Store<kube::ObjectView>& policies;
  const JobCatalog& catalog;
  TraceSource& traces;
  const Clock& clock;
};

class RankHeatSource {
 public:
  // A picture is shown for `keep`.
  explicit RankHeatSource(const RankHeatEnvironment& environment, Duration keep = std::chrono::seconds(8))
      : env_(environment), keep_(keep) {}

  // RankHeat as JSON text; "traced" is false for a run that is not there, or over. Blocks until `deadline`.
  std::string Heat(const kube::ObjectKey& run, Deadline deadline) EXCLUDES(mutex_);

 private:
  struct Kept {
    std::string text;
    TimePoint until;
  };
  RunPaces Pull(const kube::ObjectKey& key, const api::TrainingRun& run, Deadline deadline) const;
  std::string Make(const kube::ObjectKey& key, Deadline deadline) const;

  const RankHeatEnvironment env_;
  const Duration keep_;
  Mutex mutex_;
  std::map<kube::ObjectKey, Kept> kept_ GUARDED_BY(mutex_);
};

}  // namespace paceline::operator_
