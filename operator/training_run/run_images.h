// How the images of a run came to its nodes, from what the nodes' snapshotters report: the rows of TrainingRun.status
// .images, the bytes, the hit ratio and the fall-backs that follow from them. Pure; caller: run status.
#pragma once

#include <vector>

#include "lib/api/training_run.h"
#include "operator/training_run/worker_facts.h"

namespace paceline::operator_ {

inline constexpr std::string_view kLazyImageFeature = "lazy image";

// Writes images, bytes, hot_set and fallbacks of `status`; queued_at of it is known. What an earlier status (`before`)
// says stays where nobody reports any more. Workers without pods are left out of `workers`.
void AddImages(const std::vector<const WorkerInput*>& workers, const api::TrainingRunStatus& before,
               api::TrainingRunStatus& status);

// The fall-backs of `after` that `before` does not have.
std::vector<api::Fallback> NewFallbacks(const api::TrainingRunStatus& before, const api::TrainingRunStatus& after);

}  // namespace paceline::operator_
