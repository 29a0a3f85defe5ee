// What to do about one TrainingJob, decided from what is there and nothing else: a pure function, so that a restarted
// operator goes on where the last one stopped and the tests are tables. Apply (apply.h) is the only writer.
//
// Each start of a job is a generation: Job "<job>-g<n>". A failed Job is kept until the next generation has started, so
// its restarts and its end can be read from the cluster; the number of the current start is the larger of the status
// and the newest Job, whichever was written last before a crash.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/api/training_job.h"
#include "operator/training_job/manifest.h"
#include "operator/training_run/explain.h"

namespace paceline::operator_ {

// One of the job's Jobs.
struct ObservedJob {
  int64_t generation = 0;
  int64_t restarts = 0;
  std::string name;
  std::string uid;
  WallTime created;
  bool is_being_deleted = false;
  bool is_complete = false;
  bool is_failed = false;  // or about to: its pods are being ended
  std::optional<WallTime> end_time;
  std::string failure_message;
};

// One of its pods, of any generation.
struct ObservedWorker {
  int64_t generation = 0;
  bool is_running = false;  // all containers run
  bool is_ready = false;
  bool is_succeeded = false;
  bool is_failed = false;
  std::optional<WallTime> deletion_time;  // when its grace period ends or ended
  bool is_over() const { return is_succeeded || is_failed; }
};

struct TrainingJobObservation {
  std::vector<ObservedJob> jobs;
  std::vector<ObservedWorker> workers;
  bool has_service = false;
  // Read from the server, not the cache: the Job of status.run_generation does not exist.
  bool is_current_job_gone = false;
  // A write of ours that the server refused for good, in its words; empty: none.
  std::string refusal_reason;
  std::string refusal_message;
  // Why the current generation's pods failed, if they did.
  std::optional<Explanation> failure;
  WallTime now;
};

struct CreateService {
  friend bool operator==(const CreateService&, const CreateService&) = default;
};
struct CreateJob {
  StartSpec start;
  friend bool operator==(const CreateJob&, const CreateJob&) = default;
};
struct DeleteJob {
  std::string name;
  std::string uid;
  friend bool operator==(const DeleteJob&, const DeleteJob&) = default;
};
// Ask the server whether the Job of this generation exists, then plan again: the cache may only be behind.
struct ConfirmJob {
  int64_t generation = 0;
  friend bool operator==(const ConfirmJob&, const ConfirmJob&) = default;
};
struct DeleteTrainingJob {
  friend bool operator==(const DeleteTrainingJob&, const DeleteTrainingJob&) = default;
};
using TrainingJobAction = std::variant<CreateService, CreateJob, DeleteJob, ConfirmJob, DeleteTrainingJob>;

struct PlannedEvent {
  bool is_warning = false;
  std::string reason;
  std::string action;
  std::string note;
};

struct TrainingJobPlan {
  std::vector<TrainingJobAction> actions;
  api::TrainingJobStatus status;  // as it should be, whatever becomes of the actions
  std::vector<PlannedEvent> events;
  std::optional<Duration> look_again_after;
};

TrainingJobPlan PlanTrainingJob(const api::TrainingJob& job, const TrainingJobObservation& seen);

// Between the end of a failed start and the next: 5 s, doubled with each restart, at most 5 min.
Duration RestartDelay(int64_t restarts);

// A pod that should be gone for so long is on a node that does not answer.
inline constexpr Duration kLostAfter = std::chrono::seconds(60);

}  // namespace paceline::operator_
