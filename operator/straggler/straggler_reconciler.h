// Carries out a StragglerPolicy: finds slow nodes in the paces of the runs whose jobs name it, tells each as an
// Incident, and does to them what the policy says, within its limits. Level-triggered: what it has done stands on the
// nodes and in the policy's status, what it finds it finds again after a restart, since agents remember a quarter of an
// hour. A key is a policy. The leader's work only.
#pragma once

#include <map>
#include <set>
#include <string>

#include "lib/base/log.h"
#include "lib/base/metrics.h"
#include "lib/kube/cache.h"
#include "lib/kube/client.h"
#include "lib/kube/controller.h"
#include "lib/kube/events.h"
#include "operator/straggler/pace_store.h"
#include "operator/straggler/policy_plan.h"
#include "operator/straggler/run_policy.h"

namespace paceline::operator_ {

class NodeReports;

// All must outlive the reconciler.
struct StragglerEnvironment {
  const PaceStore& paces;
  const kube::Store<kube::ObjectView>& policies;
  const kube::Store<kube::ObjectView>& runs;
  const kube::Store<kube::ObjectView>& incidents;
  const kube::Store<kube::NodeView>& nodes;
  const kube::Store<kube::PodView>& pods;  // indexed by node
  const NodeReports& reports;
  const JobCatalog& catalog;
  kube::Client& client;
  kube::EventRecorder& recorder;
  const Clock& clock;
  Logger& log;
  MetricsRegistry& metrics;
};

class StragglerReconciler final : public kube::Reconciler {
 public:
  explicit StragglerReconciler(const StragglerEnvironment& environment);

  Result<kube::Action> Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token stop) override;

 private:
  class Pass;
  // Of a policy that went without a pass of its own: nothing was out then.
  Result<kube::Action> EndOfGone(const std::string& policy, Deadline deadline);
  void Show(const std::string& policy, const PolicyPlan& plan, const std::map<std::string, NodeFinding>& findings);
  void Forget(const std::string& policy);

  const StragglerEnvironment env_;
  MetricFamily<Gauge>& nodes_gauge_;
  MetricFamily<Gauge>& refusals_gauge_;
  MetricFamily<Gauge>& breaker_gauge_;
  MetricFamily<Gauge>& probes_gauge_;
  MetricFamily<Counter>& incidents_;
  MetricFamily<Counter>& actions_;
  // What has been noted of probes, so that the Incident is not asked each time; used by the one worker alone.
  std::set<std::string> noted_probes_;
};

}  // namespace paceline::operator_
