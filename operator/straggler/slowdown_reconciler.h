// Tells what slow ranks cost each traced run that goes on: asks the agents of its nodes for paces, keeps them in a
// PaceStore, and writes the slowdown and its error into the run's status and metrics. Where too little is known there
// is no number. A key is a run. The leader's work only.
#pragma once

#include <map>
#include <vector>

#include "lib/base/log.h"
#include "lib/base/metrics.h"
#include "lib/base/mutex.h"
#include "lib/kube/cache.h"
#include "lib/kube/client.h"
#include "lib/kube/controller.h"
#include "operator/incident/trace_source.h"
#include "operator/node_plan/node_reports.h"
#include "operator/pacer.h"
#include "operator/straggler/pace_store.h"

namespace paceline::analysis {
struct Slowdown;
struct WorkerSlowdown;
}  // namespace paceline::analysis
namespace paceline::api {
struct TrainingRun;
struct TrainingRunStatus;
}  // namespace paceline::api

namespace paceline::operator_ {

class JobCatalog;

// All must outlive the reconciler.
struct SlowdownEnvironment {
  const NodeReports& reports;
  const kube::Store<kube::ObjectView>& runs;
  const kube::Store<kube::ObjectView>& policies;
  const JobCatalog& catalog;
  TraceSource& traces;
  PaceStore& paces;
  kube::Client& client;
  const Clock& clock;
  Logger& log;
  MetricsRegistry& metrics;
};

class SlowdownReconciler final : public kube::Reconciler {
 public:
  explicit SlowdownReconciler(const SlowdownEnvironment& environment);

  Result<kube::Action> Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token stop) override
      EXCLUDES(mutex_);

 private:
  void Forget(const kube::ObjectKey& key) EXCLUDES(mutex_);
  Status Pull(const kube::ObjectKey& key, const api::TrainingRun& run, Deadline deadline, std::stop_token stop);
  void Show(const kube::ObjectKey& key, const analysis::Slowdown& slowdown) EXCLUDES(mutex_);
  // The gauge of single ranks: these and no others of the run.
  void ShowWorkers(const kube::ObjectKey& key, const std::map<LabelValues, double>& slow) EXCLUDES(mutex_);
  Status Write(const api::TrainingRun& run, const analysis::Slowdown& slowdown, Deadline deadline) EXCLUDES(mutex_);

  const SlowdownEnvironment env_;
  Pacer pacer_;
  MetricFamily<Gauge>& slowdown_gauge_;
  MetricFamily<Gauge>& error_gauge_;
  MetricFamily<Gauge>& worker_gauge_;
  MetricFamily<Counter>& unanswered_;
  Mutex mutex_;
  std::map<kube::ObjectKey, TimePoint> written_ GUARDED_BY(mutex_);
  std::map<kube::ObjectKey, std::vector<LabelValues>> shown_workers_ GUARDED_BY(mutex_);
};

// Whether writing `after` tells a reader of `before` anything worth a write: another figure by half its error, or known
// instead of unknown. Pure.
bool IsNews(const api::TrainingRunStatus& before, const analysis::Slowdown& after);

// The slowest ranks that cost more than what is uncertain, and no more than kToldWorkers of them: as many series has a
// run, whatever its size. Pure.
inline constexpr size_t kToldWorkers = 8;
std::vector<analysis::WorkerSlowdown> ToldWorkers(const analysis::Slowdown& slowdown);

}  // namespace paceline::operator_
