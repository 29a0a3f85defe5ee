// `pacectl doctor`: is Paceline installed, alive and able to help on each node? The checks are a pure function of what
// was read from the API server, so each is tested by a table; cluster_facts.h does the reading.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/api/node_plan.h"
#include "lib/base/clock.h"
#include "lib/base/status.h"

namespace paceline::cli {

struct NodeSummary {
  std::string name;
  bool is_ready = false;
  bool is_schedulable = true;
  std::string kubelet_version;
  std::string container_runtime;  // "containerd://2.4.2"
};

// What doctor looks at. A part that could not be read carries the error instead of passing for absent.
struct ClusterFacts {
  std::string server_version;
  std::vector<std::string> crd_names;  // "trainingjobs.paceline.dev"
  Status crds_status;

  std::optional<std::string> lease_holder;  // of the operator's lease; absent: no such lease
  std::optional<WallTime> lease_renewed;
  Status lease_status;

  bool has_webhook = false;
  bool webhook_has_ca = false;
  Status webhook_status;

  bool has_csi_driver = false;
  Status csi_driver_status;

  std::vector<NodeSummary> nodes;
  Status nodes_status;
  std::vector<api::NodePlan> plans;
  Status plans_status;
};

enum class CheckLevel { kOk, kWarn, kFail };

struct CheckResult {
  CheckLevel level = CheckLevel::kOk;
  std::string subject;  // "operator", "node n1"
  std::string finding;  // what is so
  std::string advice;   // what to do; empty when ok
};

// All checks in a fixed order, cluster first, then nodes by name. `version` is pacectl's own.
std::vector<CheckResult> Diagnose(const ClusterFacts& facts, const std::string& version, WallTime now);

// "ok    operator  leading: x\n" lines and a closing count.
std::string RenderChecks(const std::vector<CheckResult>& checks);
nlohmann::json ChecksValue(const std::vector<CheckResult>& checks);

}  // namespace paceline::cli
