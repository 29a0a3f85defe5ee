// Which StragglerPolicy a run's job names, and what of a policy the analysis needs. Pure but for the look into the
// catalog's caches; callers: the controllers of slowdowns and stragglers.
#pragma once

#include <optional>
#include <string>

#include "analysis/straggler.h"
#include "lib/api/straggler_policy.h"
#include "lib/api/training_run.h"
#include "lib/kube/cache.h"
#include "operator/jobs/job_catalog.h"

namespace paceline::operator_ {

// The name that the job gives in its spec (TrainingJob) or annotation; empty when it names none. Nothing when the job
// is not known: gone, or its kind is not served now.
std::optional<std::string> PolicyNameOf(const JobCatalog& catalog, const api::TrainingRun& run);

// The policy as the cache has it; nothing when there is none of that name, or it cannot be read.
std::optional<api::StragglerPolicy> FindPolicy(const kube::Store<kube::ObjectView>& policies, const std::string& name);

// The run as the cache has it; nothing when it is gone, being deleted, or cannot be read.
std::optional<api::TrainingRun> FindTrainingRun(const kube::Store<kube::ObjectView>& runs, const kube::ObjectKey& key);

analysis::StragglerOptions OptionsOf(const api::Detection& detection);

// How often windows of such a policy are worth a look.
Duration LookPeriod(const api::Detection& detection);

}  // namespace paceline::operator_
