// What a DependencySnapshot says, from what the agents report of the pods that install or restore it: states, who
// recorded, uses. Pure; the reconciler writes it.
//
// The store is what counts, and only agents see it: the object is the cluster's picture of it. Reports stay for a while
// after their pod, so the picture is right again after a restart of the operator, and what no report says any more
// keeps.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/api/dependency_snapshot.h"
#include "lib/base/result.h"
#include "operator/node_plan/node_reports.h"

namespace paceline::operator_ {

inline constexpr std::string_view kSnapshotReadyCondition = "Ready";

struct SnapshotReport {
  DependencyReport told;
  std::string run;         // the pod's TrainingRun; empty when nobody knows it any more
  bool is_silent = false;  // its agent has not been heard of for so long that nothing goes on there
};

struct SnapshotInput {
  api::DependencySnapshotStatus before;
  int64_t generation = 0;
  std::vector<SnapshotReport> reports;  // all of this key, in any order
  WallTime now;
};

api::DependencySnapshotStatus ComputeSnapshotStatus(const SnapshotInput& input);

// When the object of a snapshot that has ended or failed goes, if nobody reports of it; empty: it stays.
std::optional<WallTime> RemovalTime(const api::DependencySnapshotStatus& status, Duration keep);

// The spec as the pod of `pod` says it in its volume: kNotFound when it has no volume of this key.
Result<api::DependencySnapshotSpec> SnapshotSpecOf(const nlohmann::json& pod, const std::string& key);

}  // namespace paceline::operator_
