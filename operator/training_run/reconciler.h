// Keeps one TrainingRun for each start of each enabled training job, of any kind. A key is a job (JobKey::ToObjectKey);
// one pass looks at all starts of the job, which are one or two. Level-triggered; the leader's work only.
//
// Pods of a big job change hundreds of times in its first seconds: a job is looked at at most once a second.
#pragma once

#include <memory>

#include "lib/base/clock.h"
#include "lib/kube/cache.h"
#include "lib/kube/client.h"
#include "lib/kube/controller.h"
#include "lib/kube/events.h"
#include "operator/jobs/job_catalog.h"
#include "operator/node_plan/node_reports.h"
#include "operator/pacer.h"
#include "operator/training_run/observed_times.h"
#include "operator/training_run/run_metrics.h"

namespace paceline::operator_ {

inline constexpr std::string_view kEventPodIndex = "pod";    // events by the uid of their pod
inline constexpr std::string_view kRunOwnerIndex = "owner";  // runs by the uid of their job

// The indexes that the stores below need.
std::vector<kube::CacheIndex<kube::PodView>> PodIndexes();
kube::CacheIndex<kube::EventView> EventPodIndex();

struct TrainingRunEnvironment {
  const JobCatalog& catalog;
  const kube::Store<kube::JobView>& child_jobs;  // Jobs of TrainingJobs, indexed by paceline.dev/job-uid
  const kube::Store<kube::PodView>& pods;        // PodIndexes
  const kube::Store<kube::EventView>& events;    // EventPodIndex
  const kube::Store<kube::ObjectView>& runs;     // OwnerIndex
  const NodeReports& reports;
  const ObservedTimesTracker& observed;
  kube::Client& client;
  kube::EventRecorder& recorder;
  const Clock& clock;
  MetricsRegistry& metrics;
};

struct TrainingRunOptions {
  int64_t history_limit = 5;                                // ended runs of a foreign job to keep
  Duration min_interval = std::chrono::seconds(1);          // between two looks at one job
  Duration settle_time = std::chrono::minutes(2);           // after its end a run is still corrected for so long
  Duration agent_silence_limit = std::chrono::minutes(11);  // an agent not heard of for longer is dead
};

class TrainingRunReconciler final : public kube::Reconciler {
 public:
  TrainingRunReconciler(const TrainingRunEnvironment& environment, const TrainingRunOptions& options)
      : env_(environment),
        options_(options),
        pacer_(env_.clock, options_.min_interval),
        metrics_(env_.metrics, env_.clock) {}

  Result<kube::Action> Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token stop) override;

 private:
  const TrainingRunEnvironment env_;
  const TrainingRunOptions options_;
  Pacer pacer_;
  RunMetrics metrics_;
};

// True when the annotations ask for Paceline, or try to: a bad value has to be told about.
bool MayBeEnabled(const kube::ObjectMeta& meta);

}  // namespace paceline::operator_
