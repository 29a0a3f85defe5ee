// How the workers of a run came to their dependencies, from what their wrappers have marked and what the agents say of
// their volumes (docs/formats/stage-marker.md, dependency-snapshot.md section 6). Pure; caller: run_status.cc.
#pragma once

#include <optional>
#include <vector>

#include "lib/api/training_run.h"
#include "operator/training_run/worker_facts.h"

namespace paceline::operator_ {

// Empty until it is known, and for a worker that installs nothing.
std::optional<api::WorkerDependencies> DependenciesOf(const WorkerInput& worker);

// Of all together: Recorded when any was, Restored when all were, FellBack when one could not, else Installed.
std::optional<api::SnapshotUse> SnapshotUseOf(const std::vector<const WorkerInput*>& workers);

}  // namespace paceline::operator_
