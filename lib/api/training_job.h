// TrainingJob: a gang of workers that the operator runs as one Indexed Job per start, with everything that Paceline can
// do for it. Plain values; codec.h turns them to and from JSON and checks them.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/api/job_settings.h"
#include "lib/api/meta.h"

namespace paceline::api {

// kStatic: MASTER_ADDR, MASTER_PORT, WORLD_SIZE, NODE_RANK. kC10d: torchrun's PET_RDZV_* variables besides.
enum class RendezvousBackend { kStatic, kC10d };

struct Rendezvous {
  int64_t port = 29500;
  RendezvousBackend backend = RendezvousBackend::kStatic;

  friend bool operator==(const Rendezvous&, const Rendezvous&) = default;
};

// kOnFailure: any worker that fails ends the whole gang, which then starts again as the next generation.
enum class RestartMode { kNever, kOnFailure };

struct RestartPolicy {
  RestartMode mode = RestartMode::kNever;
  int64_t max_restarts = 3;  // counted only with kOnFailure

  friend bool operator==(const RestartPolicy&, const RestartPolicy&) = default;
};

struct TrainingJobSpec {
  int64_t workers = 0;  // pods; required
  // WORLD_SIZE is workers * procs_per_worker.
  int64_t procs_per_worker = 1;
  // The PodTemplateSpec as the user wrote it; never null in a job that FromJson accepted.
  std::shared_ptr<const nlohmann::json> pod_template;
  Rendezvous rendezvous;
  RestartPolicy restart_policy;
  StartupSettings startup;
  std::vector<Checkpoint> checkpoints;
  TracingSettings tracing;
  std::string straggler_policy;
  bool suspend = false;
  std::optional<int64_t> ttl_seconds_after_finished;  // absent: the job stays
  int64_t run_history_limit = 5;                      // finished TrainingRuns to keep
};

// A one-word summary of the conditions for `kubectl get`; programs read the conditions.
enum class JobPhase { kPending, kSuspended, kRunning, kRestarting, kComplete, kFailed };

struct WorkerCounts {
  int64_t active = 0;  // pods that exist and have not ended
  int64_t ready = 0;
  int64_t succeeded = 0;
  int64_t failed = 0;

  friend bool operator==(const WorkerCounts&, const WorkerCounts&) = default;
};

struct TrainingJobStatus {
  int64_t observed_generation = 0;  // metadata.generation that this status speaks of
  std::optional<JobPhase> phase;
  int64_t run_generation = 0;  // current start: 0 for the first, counted up by restarts and by resuming
  int64_t restarts = 0;        // starts after a failure, what maxRestarts limits
  std::string current_run;     // name of the TrainingRun of run_generation
  WorkerCounts workers;
  std::optional<WallTime> start_time;       // first start
  std::optional<WallTime> completion_time;  // complete or failed for good
  std::vector<Condition> conditions;
};

struct TrainingJob {
  ObjectMeta metadata;
  TrainingJobSpec spec;
  TrainingJobStatus status;
};

// The same settings that annotations give for other kinds.
JobSettings SettingsOf(const TrainingJobSpec& spec);

}  // namespace paceline::api
