// What a job object of any kind says about itself besides its identity: when its current start was asked for, and
// whether it has ended. Pure; callers: the run reconciler.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "lib/api/job_kinds.h"
#include "lib/base/clock.h"

namespace paceline::operator_ {

enum class ReportedEnd { kOpen, kSucceeded, kFailed, kUnreported };

struct JobEndFacts {
  ReportedEnd end = ReportedEnd::kOpen;
  std::string reason;
  std::string message;
  std::optional<WallTime> time;
};

// Reads status.conditions (Complete, Completed, Succeeded, Failed), Volcano's status.state.phase and Ray's
// status.jobStatus. kUnreported for a kind that knows no end (LeaderWorkerSet).
JobEndFacts ReadJobEnd(const api::JobKind& kind, const nlohmann::json& job);

// When the job was resumed last, where a condition Suspended tells; empty when it never was.
std::optional<WallTime> ResumedAt(const nlohmann::json& job);

// True while the job is suspended and so has no start.
bool IsSuspended(const api::JobKind& kind, const nlohmann::json& job);

}  // namespace paceline::operator_
