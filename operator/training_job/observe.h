// Reads what the caches know about a TrainingJob into the plain values that plan.h decides on. Pure; caller:
// reconciler.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "lib/kube/views.h"
#include "operator/training_job/plan.h"

namespace paceline::operator_ {

// Empty for a Job that is not one of ours (no generation label).
std::optional<ObservedJob> ObserveJob(const kube::JobView& job);
std::optional<ObservedWorker> ObserveWorker(const kube::PodView& pod);

// Why the gang ended: of the failed pods of `generation` the one that ended first, since the others were ended because
// of it. Empty while none failed.
std::optional<Explanation> FirstFailure(const std::vector<std::shared_ptr<const kube::PodView>>& pods,
                                        int64_t generation);

}  // namespace paceline::operator_
