// What the operator's /metrics says of nodes, incidents and dependency snapshots as they are: read from the watch
// caches at each scrape, by the leader only, so that two replicas do not say everything twice.
#pragma once

#include <functional>
#include <memory>

#include "lib/base/clock.h"
#include "lib/base/metrics.h"
#include "lib/kube/cache.h"
#include "operator/node_plan/node_reports.h"

namespace paceline::operator_ {

struct ClusterMetricsEnvironment {
  const kube::Store<kube::NodeView>& nodes;
  const kube::Store<kube::ObjectView>& incidents;
  const kube::Store<kube::ObjectView>& snapshots;
  const NodeReports& reports;
  std::function<bool()> is_leading;
  Duration agent_silence_limit = std::chrono::minutes(11);
};

class ClusterMetrics {
 public:
  // Registers with `metrics`. The environment must outlive this object; `metrics` may outlive both.
  ClusterMetrics(MetricsRegistry& metrics, ClusterMetricsEnvironment environment);
  // From here on a scrape changes nothing any more. Waits for one that is under way.
  ~ClusterMetrics();
  ClusterMetrics(const ClusterMetrics&) = delete;
  ClusterMetrics& operator=(const ClusterMetrics&) = delete;

 private:
  class Gauges;
  const std::shared_ptr<Gauges> gauges_;
};

}  // namespace paceline::operator_
