// Keeps one NodePlan for each Node: the agent reports in its status, and its spec names the jobs that have pods on the
// node, and the nodes with which it shares chunks of their images. The plan goes when the node goes, by its owner
// reference. Level-triggered; the leader's work only. Keys are nodes.
//
// Peers change with every pod of a run that is placed, on all of its nodes; so they are written some time apart.
#pragma once

#include <map>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/kube/cache.h"
#include "lib/kube/client.h"
#include "lib/kube/controller.h"
#include "operator/jobs/job_catalog.h"
#include "operator/node_plan/node_reports.h"

namespace paceline::operator_ {

// All must outlive the reconciler. `pods` needs the index "node", `runs` the index "owner".
struct NodePlanEnvironment {
  const kube::Store<kube::NodeView>& nodes;
  const kube::Store<kube::PodView>& pods;
  const kube::Store<kube::ObjectView>& runs;
  const kube::Store<kube::ObjectView>& plans;
  const JobCatalog& catalog;
  const NodeReports& reports;
  kube::Client& client;
  const Clock& clock;
};

// From a change that matters to peers alone to the look at it: pods of a run are placed together.
inline constexpr Duration kPeersDelay = std::chrono::seconds(1);
// Between two writes of the same node's plan that change nothing but its peers.
inline constexpr Duration kPeersWriteInterval = std::chrono::seconds(10);

class NodePlanReconciler final : public kube::Reconciler {
 public:
  explicit NodePlanReconciler(const NodePlanEnvironment& environment) : env_(environment) {}

  Result<kube::Action> Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token stop) override;

 private:
  // How long a change of nothing but peers has to wait yet.
  Duration UntilPeersMayChange(const std::string& node) const EXCLUDES(mutex_);

  const NodePlanEnvironment env_;
  mutable Mutex mutex_;
  std::map<std::string, TimePoint> peers_written_ GUARDED_BY(mutex_);  // lost on a restart, which costs one write
};

}  // namespace paceline::operator_
