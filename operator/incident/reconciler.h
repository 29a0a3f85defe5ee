// Looks into what agents report of a run's traces: pulls the tables of all its nodes, lets the analysis say who or what
// keeps it from going on, and writes that down as an Incident, in the run's status and as an event of the job. A key is
// a run. Level-triggered: the agents' alerts hold for as long as what they tell goes on, so a restarted operator finds
// them again; an incident is resolved when they are gone. The leader's work only.
#pragma once

#include <map>

#include "analysis/slow_link.h"
#include "lib/base/metrics.h"
#include "lib/base/mutex.h"
#include "lib/kube/cache.h"
#include "lib/kube/client.h"
#include "lib/kube/controller.h"
#include "lib/kube/events.h"
#include "operator/incident/judge.h"
#include "operator/incident/trace_source.h"

namespace paceline::operator_ {

struct IncidentEnvironment {
  const NodeReports& reports;
  const kube::Store<kube::ObjectView>& runs;
  const kube::Store<kube::PodView>& pods;          // indexed by node
  const kube::Store<kube::ObjectView>& incidents;  // indexed by the label of their run
  TraceSource& traces;
  kube::Client& client;
  kube::EventRecorder& recorder;
  const Clock& clock;
  Logger& log;
  MetricsRegistry& metrics;
};

struct IncidentOptions {
  JudgeOptions judge;
  Duration pull_timeout = std::chrono::seconds(3);
  Duration look_period = std::chrono::seconds(2);  // while alerts hold and no incident is told
  Duration quiet_time = std::chrono::seconds(10);  // without alerts, until the incident counts as over
};

class IncidentReconciler final : public kube::Reconciler {
 public:
  IncidentReconciler(const IncidentEnvironment& environment, const IncidentOptions& options);

  Result<kube::Action> Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token stop) override
      EXCLUDES(mutex_);

 private:
  class Pass;
  // What is known of a run's alerts beyond what the cluster tells.
  struct Memory {
    std::optional<TimePoint> alarmed;  // since when there are alerts
    std::optional<TimePoint> quiet;    // since when there are none
    analysis::LinkGaps gaps;           // of the looks since then
  };
  Memory Remember(const kube::ObjectKey& key, bool has_alerts) EXCLUDES(mutex_);
  // Adds a look to what is remembered, and gives all of them.
  analysis::LinkGaps AddLook(const kube::ObjectKey& key, const analysis::Tables& tables) EXCLUDES(mutex_);
  void Forget(const kube::ObjectKey& key) EXCLUDES(mutex_);

  const IncidentEnvironment env_;
  const IncidentOptions options_;
  MetricFamily<Counter>& incidents_;
  MetricFamily<Histogram>& durations_;
  MetricFamily<Counter>& unanswered_;
  Mutex mutex_;
  std::map<kube::ObjectKey, Memory> memories_ GUARDED_BY(mutex_);
};

}  // namespace paceline::operator_
