// Keeps one NodePlan for each Node: the agent reports in its status, and its spec names the jobs that have pods on the
// node. The plan goes when the node goes, by its owner reference. Level-triggered; the leader's work only. Keys are
// nodes.
#pragma once

#include "lib/base/clock.h"
#include "lib/kube/cache.h"
#include "lib/kube/client.h"
#include "lib/kube/controller.h"
#include "operator/jobs/job_catalog.h"

namespace paceline::operator_ {

// All must outlive the reconciler. `pods` needs the index "node", `runs` the index "owner".
struct NodePlanEnvironment {
  const kube::Store<kube::NodeView>& nodes;
  const kube::Store<kube::PodView>& pods;
  const kube::Store<kube::ObjectView>& runs;
  const kube::Store<kube::ObjectView>& plans;
  const JobCatalog& catalog;
  kube::Client& client;
};

class NodePlanReconciler final : public kube::Reconciler {
 public:
  explicit NodePlanReconciler(const NodePlanEnvironment& environment) : env_(environment) {}

  Result<kube::Action> Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token stop) override;

 private:
  const NodePlanEnvironment env_;
};

}  // namespace paceline::operator_
