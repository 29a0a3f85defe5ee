// The fields of TrainingJob. Internal to lib/api; see fields.h.
#pragma once

#include "lib/api/fields.h"
#include "lib/api/job_settings_fields.h"
#include "lib/api/meta_fields.h"
#include "lib/api/pod_template.h"
#include "lib/api/training_job.h"

namespace paceline::api {

template <>
struct EnumTable<RendezvousBackend> {
  static constexpr std::pair<RendezvousBackend, std::string_view> kEntries[] = {{RendezvousBackend::kStatic, "Static"},
                                                                                {RendezvousBackend::kC10d, "C10d"}};
};

template <>
struct EnumTable<RestartMode> {
  static constexpr std::pair<RestartMode, std::string_view> kEntries[] = {{RestartMode::kNever, "Never"},
                                                                          {RestartMode::kOnFailure, "OnFailure"}};
};

template <>
struct EnumTable<JobPhase> {
  static constexpr std::pair<JobPhase, std::string_view> kEntries[] = {
      {JobPhase::kPending, "Pending"},       {JobPhase::kSuspended, "Suspended"}, {JobPhase::kRunning, "Running"},
      {JobPhase::kRestarting, "Restarting"}, {JobPhase::kComplete, "Complete"},   {JobPhase::kFailed, "Failed"}};
};

template <typename V>
void Fields(V& v, const Rendezvous*) {
  using T = Rendezvous;
  v.Field("port", &T::port,
          {.doc = "Port of rank 0, given to all workers as MASTER_PORT.",
           .defaulted = true,
           .minimum = 1,
           .maximum = 65535});
  v.Field("backend", &T::backend,
          {.doc = "Static: MASTER_ADDR, MASTER_PORT, WORLD_SIZE and NODE_RANK. C10d: torchrun's PET_* variables "
                  "besides.",
           .defaulted = true});
}

template <typename V>
void Fields(V& v, const RestartPolicy*) {
  using T = RestartPolicy;
  v.Field("mode", &T::mode,
          {.doc = "Never: a failed worker fails the job. OnFailure: a failed worker ends the whole gang, which starts "
                  "again as the next generation.",
           .defaulted = true});
  v.Field("maxRestarts", &T::max_restarts,
          {.doc = "With OnFailure: after this many restarts the job has failed.",
           .defaulted = true,
           .minimum = 0,
           .maximum = 10000});
}

inline bool HasDistinctMountPaths(const TrainingJobSpec& spec) {
  for (const Checkpoint& checkpoint : spec.checkpoints) {
    const auto same = [&](const Checkpoint& other) { return other.mount_path == checkpoint.mount_path; };
    if (std::count_if(spec.checkpoints.begin(), spec.checkpoints.end(), same) > 1) return false;
  }
  return true;
}

template <typename V>
void Fields(V& v, const TrainingJobSpec*) {
  using T = TrainingJobSpec;
  v.Field("workers", &T::workers,
          {.doc = "How many workers, each one pod. They start together or not at all.",
           .required = true,
           .minimum = 1,
           .maximum = 100000});
  v.Field("procsPerWorker", &T::procs_per_worker,
          {.doc = "Processes per worker; WORLD_SIZE is workers times this.",
           .defaulted = true,
           .minimum = 1,
           .maximum = 1024});
  v.Opaque("template", &T::pod_template,
           {.doc = "The pod that every worker runs. Paceline adds to it and takes nothing away.", .required = true},
           PodTemplateSchema, CheckPodTemplate);
  v.Field("rendezvous", &T::rendezvous, {.doc = "How the workers find each other.", .defaulted = true});
  v.Field("restartPolicy", &T::restart_policy, {.doc = "What happens when a worker fails.", .defaulted = true});
  v.Field("startup", &T::startup, {.doc = "What makes the start fast.", .defaulted = true});
  v.Field("checkpoints", &T::checkpoints, kCheckpointsField);
  v.Field("tracing", &T::tracing, {.doc = "Collective tracing.", .defaulted = true});
  v.Field("stragglerPolicy", &T::straggler_policy, kStragglerPolicyField);
  v.Field(
      "suspend", &T::suspend,
      {.doc = "True ends the pods and keeps the job; false starts it again as a new generation.", .defaulted = true});
  v.Field("ttlSecondsAfterFinished", &T::ttl_seconds_after_finished,
          {.doc = "The job is deleted this long after its end, with its runs. Absent: it stays.",
           .minimum = 0,
           .maximum = 2147483647});
  v.Field(
      "runHistoryLimit", &T::run_history_limit,
      {.doc = "How many ended TrainingRuns of this job are kept.", .defaulted = true, .minimum = 1, .maximum = 100});
  v.Rule(
      "!has(self.checkpoints) || self.checkpoints.all(a, self.checkpoints.exists_one(b, b.mountPath == a.mountPath))",
      "must not mount two directories at the same mountPath", "checkpoints", HasDistinctMountPaths);
  v.TransitionRule(
      "oldSelf.suspend || (self.workers == oldSelf.workers && self.procsPerWorker == oldSelf.procsPerWorker)",
      "workers and procsPerWorker can change only while the job is suspended");
}

template <typename V>
void Fields(V& v, const WorkerCounts*) {
  using T = WorkerCounts;
  v.Field("active", &T::active, {.doc = "Pods that exist and have not ended.", .minimum = 0});
  v.Field("ready", &T::ready, {.doc = "Pods that are ready.", .minimum = 0});
  v.Field("succeeded", &T::succeeded, {.doc = "Pods that ended well.", .minimum = 0});
  v.Field("failed", &T::failed, {.doc = "Pods that failed.", .minimum = 0});
}

template <typename V>
void Fields(V& v, const TrainingJobStatus*) {
  using T = TrainingJobStatus;
  v.Field("observedGeneration", &T::observed_generation,
          {.doc = "The metadata.generation that this status speaks of.", .omit_zero = true, .minimum = 0});
  v.Field("phase", &T::phase, {.doc = "The conditions in one word, for people; programs read the conditions."});
  v.Field(
      "generation", &T::run_generation,
      {.doc = "Number of the current start: 0 for the first, counted up by restarts and by resuming.", .minimum = 0});
  v.Field("restarts", &T::restarts, {.doc = "Starts after a failure, what maxRestarts limits.", .minimum = 0});
  v.Field("currentRun", &T::current_run, {.doc = "Name of the TrainingRun of this generation."});
  v.Field("workers", &T::workers, {.doc = "Pods of the current generation."});
  v.Field("startTime", &T::start_time, {.doc = "When the job first started."});
  v.Field("completionTime", &T::completion_time, {.doc = "When the job completed or failed for good."});
  v.Field("conditions", &T::conditions, kConditionsField);
}

// Worker pods are named <job>-<generation>-<index>, and a host name has at most 63 characters.
inline bool HasJobName(const TrainingJob& job) {
  const std::string& name = job.metadata.name;
  if (name.size() > 48) return false;
  if (name.empty()) return true;  // generateName, or not yet known
  if (name.front() < 'a' || name.front() > 'z' || name.back() == '-') return false;
  return name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
}

template <typename V>
void Fields(V& v, const TrainingJob*) {
  using T = TrainingJob;
  v.Field("metadata", &T::metadata, {.doc = "Standard metadata."});
  v.Field("spec", &T::spec, {.doc = "What to run and how.", .required = true});
  v.Field("status", &T::status, {.doc = "What the operator sees."});
  v.Rule("size(self.metadata.name) <= 48 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
         "the name must have at most 48 lower-case letters, digits and '-', begin with a letter and not end with '-'",
         "metadata", HasJobName);
}

}  // namespace paceline::api
