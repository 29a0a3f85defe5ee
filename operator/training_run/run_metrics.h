// What the operator's /metrics says of runs: how many there are, where the startup of each went, what startups cost.
//
// Fed by the run reconciler, so only the leader shows runs and a restart shows them again from their status. A run has
// a fixed number of series however many workers it has: stages are shown as min, median and max and the slowest node by
// name, workers only in histograms. Series of a run go an hour after its end, and with its job. Thread-safe.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "lib/api/training_run.h"
#include "lib/base/clock.h"
#include "lib/base/metrics.h"
#include "lib/base/mutex.h"
#include "lib/kube/resource.h"

namespace paceline::operator_ {

class RunMetrics {
 public:
  // Both must outlive the object.
  RunMetrics(MetricsRegistry& metrics, const Clock& clock);

  // Shows `run` as its status is now.
  void Show(const api::TrainingRun& run) EXCLUDES(mutex_);
  // Counts what happened between two statuses of one run, of which `run` has the later and it is stored: a startup that
  // ended. A second call for the same run, as after a look at an old copy, counts nothing.
  void Count(const api::TrainingRun& run, const api::TrainingRunStatus& before) EXCLUDES(mutex_);

  // Forgets what is shown of the runs of a job but those named.
  void Keep(const std::string& job_uid, const std::set<std::string>& runs) EXCLUDES(mutex_);
  // Forgets what is shown of a job that is gone.
  void ForgetJob(std::string_view kind, const kube::ObjectKey& job) EXCLUDES(mutex_);

 private:
  using Gauges = MetricFamily<Gauge>;
  using Series = std::map<std::pair<Gauges*, LabelValues>, double>;
  struct ShownRun {
    std::string phase;  // empty: not in runs_ yet
    bool is_counted = false;
    std::vector<std::pair<Gauges*, LabelValues>> series;
  };
  struct ShownJob {
    std::string kind;
    kube::ObjectKey key;
    std::map<std::string, ShownRun> runs;
  };

  // Counters of a namespace from zero on: its first start shall show as an increase.
  void BeginTotals(const std::string& ns);
  Series SeriesOf(const api::TrainingRun& run) const;
  void Remove(const ShownJob& job, const ShownRun& run) REQUIRES(mutex_);

  const Clock& clock_;
  Gauges& runs_;
  Gauges& info_;
  Gauges& workers_;
  Gauges& gpus_;
  Gauges& startup_;
  Gauges& stages_;
  Gauges& slowest_;
  Gauges& worker_seconds_;
  Gauges& gpu_seconds_;
  Gauges& checkpoint_bytes_;
  MetricFamily<Histogram>& startups_;
  MetricFamily<Histogram>& worker_stages_;
  MetricFamily<Counter>& worker_seconds_total_;
  MetricFamily<Counter>& gpu_seconds_total_;

  Mutex mutex_;
  std::map<std::string, ShownJob> jobs_ GUARDED_BY(mutex_);  // by the job's uid
};

}  // namespace paceline::operator_
