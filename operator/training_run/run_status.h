// The status of a TrainingRun from what is known of its workers and its job: one pure function, so that a restarted
// operator, given the same cluster, writes the same status, and given less (events expired, pods gone) keeps what it
// wrote before. Callers: the run reconciler.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/api/training_run.h"
#include "operator/training_run/worker_facts.h"

namespace paceline::operator_ {

// What the job says about the end of this start.
enum class JobEnd {
  kOpen,  // it goes on, whatever single pods do
  kSucceeded,
  kFailed,
  kUnreported,  // the kind's status does not say: the pods decide
  kAbandoned,   // the job is gone or has started anew: the pods decide, and when they cannot say, nobody knows
};

struct RunInput {
  api::TrainingRunSpec spec;
  api::TrainingRunStatus before;          // as written last; empty for a new run
  int64_t generation = 0;                 // metadata.generation of the run
  Moment start;                           // the job's creation, resumption, or the restart
  std::vector<std::string> nodes_before;  // sorted, of the start before this one; empty when there is none
  std::vector<WorkerInput> workers;       // pods that are there, in any order
  JobEnd end = JobEnd::kOpen;
  std::string end_reason;   // with kFailed
  std::string end_message;  // with kFailed
  std::optional<WallTime> end_time;
  std::vector<api::FieldError> settings_errors;
  WallTime now;
};

// A worker whose containers run and that has written no marker for so long counts as running: its code writes none.
inline constexpr Duration kMarkerPatience = std::chrono::minutes(2);

api::TrainingRunStatus ComputeRunStatus(const RunInput& input);

// True for Succeeded, Failed and Unknown: nothing will change any more.
bool IsOver(const api::TrainingRunStatus& status);

// True when all workers have taken their first step.
bool HasStepped(const api::TrainingRunStatus& status);

// True when writing `after` over `before` would tell nobody anything: they differ at most in how long the run waits.
bool IsSameForReaders(const api::TrainingRunStatus& before, const api::TrainingRunStatus& after);

// Condition types of TrainingRun besides ConfigurationValid, Complete and Failed.
inline constexpr std::string_view kProgressingCondition = "Progressing";  // False: something holds the start up
inline constexpr std::string_view kFirstStepCondition = "FirstStepSeen";  // by all workers
inline constexpr std::string_view kCheckpointsMountedCondition = "CheckpointsMounted";  // False: one died on the way
inline constexpr std::string_view kTimesCompleteCondition =
    "StageTimesKnown";  // False: a stage could not be told apart

}  // namespace paceline::operator_
