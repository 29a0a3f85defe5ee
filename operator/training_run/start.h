// The starts of one job as the cluster shows them: pods grouped by gang and generation, each with its identity, when it
// was asked for, and how it ended. Pure; caller: the run reconciler.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/api/job_kinds.h"
#include "lib/api/training_run.h"
#include "lib/kube/views.h"
#include "operator/training_run/run_status.h"

namespace paceline::operator_ {

using PodPointer = std::shared_ptr<const kube::PodView>;

struct StartKey {
  std::string gang;
  int64_t generation = 0;
  auto operator<=>(const StartKey&) const = default;
};

struct StartPod {
  PodPointer pod;
  std::optional<int64_t> rank;
};

struct JobStart {
  api::JobIdentity identity;
  std::vector<StartPod> pods;  // those that carry a rank; launchers and the like are left out
};

// For lib/api, which knows pods as its own plain view. Environment variables are not known to caches.
api::PodView ToApiPod(const kube::PodView& pod);

// The starts that have pods, and the one that the job itself is at (unless the job has several gangs, whose names only
// pods tell). kInvalidArgument when the job has no identity.
Result<std::map<StartKey, JobStart>> GroupStarts(const nlohmann::json& job, const std::vector<PodPointer>& pods);

// When the start was asked for. `child_job` is the TrainingJob's Job of this generation, or null; `before` the run of
// the start before this one, or null.
Moment StartMoment(const nlohmann::json& job, const kube::ObjectMeta& job_meta, std::optional<WallTime> job_observed,
                   const JobStart& start, const kube::JobView* child_job, const api::TrainingRunStatus* before);

struct StartEnd {
  JobEnd end = JobEnd::kOpen;
  std::string reason;
  std::string message;
  std::optional<WallTime> time;
};

// How the start ended. `is_latest`: no later start of the gang exists.
StartEnd EndOfStart(const api::JobKind& kind, const nlohmann::json& job, const kube::JobView* child_job,
                    bool is_latest);

}  // namespace paceline::operator_
