// What the agent answers over HTTP: /metrics, /healthz, /readyz, and /v1/node with the node's facts, its volumes and
// the stages of its pods, for people and for `pacectl doctor`. Builds answers only; the server is lib/net's.
// Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "agent/csi/volume_record.h"
#include "agent/plan/node_status.h"
#include "agent/plan/plan_reconciler.h"
#include "lib/base/metrics.h"
#include "lib/net/http_server.h"

namespace paceline::agent {

// Everything that /v1/node shows, at one moment.
struct NodeView {
  std::string node_name;
  NodeState state;
  PlanReconciler::Outcome plan;
  std::vector<VolumeRecord> volumes;        // there now
  std::vector<VolumeRecord> ended_volumes;  // oldest first
};

nlohmann::json RenderNode(const NodeView& view);

// Why the agent is not ready; empty when it is.
using Readiness = std::function<std::string()>;

std::map<std::string, net::Handler> NodeRoutes(MetricsRegistry& metrics, std::function<NodeView()> view,
                                               Readiness readiness);

// Gauges of the volumes, refreshed at each scrape: how many of each type, and for each pod when its volume was there.
void AddVolumeMetrics(MetricsRegistry& metrics, std::function<std::vector<VolumeRecord>()> volumes);

}  // namespace paceline::agent
