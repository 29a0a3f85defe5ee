#include "operator/training_job/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/api/codec.h"
#include "lib/api/restart.h"
#include "operator/messages.h"
#include "operator/names.h"

namespace paceline::operator_ {
namespace {

using api::Condition;
using api::ConditionStatus;
using api::JobPhase;

// Works on one job; the methods are the branches of the decision.
class Planner {
 public:
  Planner(const api::TrainingJob& job, const TrainingJobObservation& seen) : job_(job), seen_(seen) {
    plan_.status = job.status;
    plan_.status.observed_generation = job.metadata.generation;
  }

  TrainingJobPlan Plan() {
    if (job_.metadata.deletion_timestamp) {
      plan_.status = job_.status;
      return std::move(plan_);  // the garbage collector follows the owner references
    }
    if (IsFinished()) {
      EndLeftJobs();
      PlanTtl();
      return std::move(plan_);
    }
    FindCurrent();
    CountWorkers();
    if (!CheckSpec()) return std::move(plan_);
    if (job_.spec.suspend) {
      PlanSuspended();
    } else if (current_ == nullptr) {
      PlanWithoutJob();
    } else {
      PlanWithJob();
    }
    if (!seen_.has_service && !job_.spec.suspend && !IsFinished()) {
      plan_.actions.insert(plan_.actions.begin(), CreateService{});
    }
    return std::move(plan_);
  }

 private:
  bool IsFinished() const {
    return api::IsConditionTrue(plan_.status.conditions, api::kCompleteCondition) ||
           api::IsConditionTrue(plan_.status.conditions, api::kFailedCondition);
  }
  bool HasStarted() const { return plan_.status.start_time.has_value(); }

  void FindCurrent() {
    for (const ObservedJob& candidate : seen_.jobs) {
      if (current_ == nullptr || candidate.generation > current_->generation) current_ = &candidate;
    }
    // An older Job than the status speaks of: the newer one is gone, or not in the cache yet.
    if (current_ != nullptr && HasStarted() && current_->generation < plan_.status.run_generation) current_ = nullptr;
    if (current_ == nullptr) return;
    plan_.status.run_generation = current_->generation;
    plan_.status.restarts = current_->restarts;
    if (!plan_.status.start_time) plan_.status.start_time = current_->created;
    NameRun();
  }

  void NameRun() {
    plan_.status.current_run = RunName(job_.metadata.name, job_.metadata.uid, plan_.status.run_generation);
  }

  void CountWorkers() {
    api::WorkerCounts counts;
    for (const ObservedWorker& worker : seen_.workers) {
      if (worker.generation != plan_.status.run_generation) continue;
      counts.active += worker.is_over() ? 0 : 1;
      counts.ready += worker.is_ready ? 1 : 0;
      counts.succeeded += worker.is_succeeded ? 1 : 0;
      counts.failed += worker.is_failed ? 1 : 0;
      running_ += worker.is_running || worker.is_succeeded ? 1 : 0;
    }
    plan_.status.workers = counts;
  }

  // False when nothing can be made of this spec; then nothing more is made, and what runs goes on.
  bool CheckSpec() {
    std::string reason = "Valid";
    std::string message;
    if (const auto errors = api::Validate(job_); !errors.empty()) {
      reason = "InvalidSpec";
      message = api::Say(RefusalAdvice(reason), api::JoinErrors(errors));
    } else if (!seen_.refusal_reason.empty()) {
      reason = seen_.refusal_reason;
      message = seen_.refusal_message;
    }
    const bool is_valid = reason == "Valid";
    const bool changed = Set(api::kConfigurationValidCondition, is_valid, reason, message);
    if (is_valid) return true;
    if (changed) Warn(reason, "Validate", message);
    if (!plan_.status.phase) plan_.status.phase = JobPhase::kPending;
    // A refusal may pass (a foreign object removed, a quota raised); a spec changes only by an edit, which wakes us.
    if (reason != "InvalidSpec") plan_.look_again_after = std::chrono::seconds(30);
    return reason != "InvalidSpec" && current_ != nullptr;
  }

  void PlanSuspended() {
    bool is_quiet = true;
    for (const ObservedJob& other : seen_.jobs) {
      if (other.is_complete) continue;
      is_quiet = false;
      if (!other.is_being_deleted) plan_.actions.push_back(DeleteJob{other.name, other.uid});
    }
    if (current_ != nullptr && current_->is_complete) return PlanWithJob();
    is_quiet = is_quiet && plan_.status.workers.active == 0;
    plan_.status.phase = JobPhase::kSuspended;
    Set(api::kRunningCondition, false, "Suspended", "");
    Set(api::kRestartingCondition, false, "Suspended", "");
    if (Set(api::kSuspendedCondition, true, is_quiet ? "Suspended" : "EndingWorkers", "") && is_quiet) {
      Tell("Suspended", "Suspend", api::Say(kSuspended, "the job is suspended; its workers are gone"));
    }
  }

  void PlanWithoutJob() {
    const bool was_suspended = api::IsConditionTrue(job_.status.conditions, api::kSuspendedCondition);
    Set(api::kSuspendedCondition, false, "NotSuspended", "");
    if (!HasStarted()) {
      // A job that was created suspended starts when it is resumed, not when it was created.
      Start({0, 0, was_suspended ? std::optional(seen_.now) : std::nullopt});
      return;
    }
    if (!seen_.is_current_job_gone) {
      plan_.actions.push_back(ConfirmJob{plan_.status.run_generation});
      return;
    }
    if (was_suspended) {
      Start({plan_.status.run_generation + 1, plan_.status.restarts, seen_.now});
      return;
    }
    if (const auto asked = RequestedRestart()) {
      RestartAsAsked(*asked, nullptr);
      return;
    }
    // We delete a Job ourselves when one of its pods is lost: then the reason is known already.
    Explanation why{"JobDeleted", api::Say(FailureAdvice("JobDeleted"),
                                           fmt::format("Job {} was deleted",
                                                       JobName(job_.metadata.name, plan_.status.run_generation)))};
    const Condition* restarting = api::FindCondition(job_.status.conditions, api::kRestartingCondition);
    if (restarting != nullptr && restarting->status == ConditionStatus::kTrue)
      why = {restarting->reason, restarting->message};
    FailOrRestart(why, seen_.now, nullptr);
  }

  void PlanWithJob() {
    if (current_->is_complete) {
      plan_.status.phase = JobPhase::kComplete;
      plan_.status.completion_time = current_->end_time.value_or(seen_.now);
      Set(api::kRunningCondition, false, "Complete", "");
      Set(api::kRestartingCondition, false, "Complete", "");
      Set(api::kCompleteCondition, true, "AllWorkersSucceeded", "");
      Tell("Complete", "Complete", fmt::format("all {} workers succeeded", job_.spec.workers));
      PlanTtl();
      return;
    }
    if (current_->is_being_deleted) {
      // What follows is decided when it is gone, by what the status says until then.
      Set(api::kRunningCondition, false, "EndingWorkers", "");
      return;
    }
    Set(api::kSuspendedCondition, false, "NotSuspended", "");
    if (current_->is_failed) {
      FailOrRestart(WhyFailed(), current_->end_time.value_or(seen_.now), current_);
      return;
    }
    if (const auto asked = RequestedRestart()) {
      RestartAsAsked(*asked, current_);
      return;
    }
    if (const auto lost_at = LostWorkerTime()) {
      FailOrRestart({"WorkerLost", api::Say(FailureAdvice("WorkerLost"),
                                            "a worker's node does not answer: its pod should have been gone by now")},
                    *lost_at, current_);
      return;
    }
    DropOlderJobs();
    const bool all_run = running_ == job_.spec.workers;
    plan_.status.phase = all_run                                 ? JobPhase::kRunning
                         : plan_.status.restarts > 0 && !all_run ? JobPhase::kRestarting
                                                                 : JobPhase::kPending;
    if (WasRunning() && !all_run) plan_.status.phase = JobPhase::kRunning;
    Set(api::kRestartingCondition, *plan_.status.phase == JobPhase::kRestarting, all_run ? "Running" : "Starting", "");
    Set(api::kRunningCondition, *plan_.status.phase == JobPhase::kRunning, all_run ? "AllWorkersRun" : "Starting", "");
  }

  // A gang of which some have ended is still the running one.
  bool WasRunning() const {
    return api::IsConditionTrue(job_.status.conditions, api::kRunningCondition) &&
           job_.status.run_generation == plan_.status.run_generation;
  }

  Explanation WhyFailed() const {
    if (seen_.failure) return *seen_.failure;
    return {"WorkerFailed",
            api::Say(FailureAdvice("WorkerFailed"),
                     current_->failure_message.empty() ? "a worker failed" : current_->failure_message)};
  }

  bool IsLost(const ObservedWorker& worker) const {
    return worker.deletion_time && !worker.is_over() && seen_.now >= *worker.deletion_time + kLostAfter;
  }

  std::optional<WallTime> LostWorkerTime() {
    for (const ObservedWorker& worker : seen_.workers) {
      if (worker.generation != current_->generation || !worker.deletion_time || worker.is_over()) continue;
      if (IsLost(worker)) return *worker.deletion_time + kLostAfter;
      LookAgainAt(*worker.deletion_time + kLostAfter);
    }
    return std::nullopt;
  }

  // Pods of the ended start that may still hold a GPU or write a checkpoint.
  bool HasLiveWorkers() {
    bool has_live = false;
    for (const ObservedWorker& worker : seen_.workers) {
      if (worker.generation != plan_.status.run_generation || worker.is_over() || IsLost(worker)) continue;
      has_live = true;
      if (worker.deletion_time) LookAgainAt(*worker.deletion_time + kLostAfter);
    }
    return has_live;
  }

  // `ended` is the Job that failed; null when it is gone.
  void FailOrRestart(const Explanation& why, WallTime failed_at, const ObservedJob* ended) {
    Set(api::kRunningCondition, false, why.reason, why.message);
    const api::RestartPolicy& policy = job_.spec.restart_policy;
    const bool may_restart = policy.mode == api::RestartMode::kOnFailure && plan_.status.restarts < policy.max_restarts;
    if (!may_restart) {
      Fail(policy.mode == api::RestartMode::kOnFailure
               ? Explanation{why.reason, fmt::format("{} (after {} restarts)", why.message, plan_.status.restarts)}
               : why,
           failed_at);
      return;
    }
    plan_.status.phase = JobPhase::kRestarting;
    if (Set(api::kRestartingCondition, true, why.reason, why.message)) {
      Warn("Restarting", "Restart",
           api::Say(kRestarting,
                    fmt::format("restart {} of {}: {}", plan_.status.restarts + 1, policy.max_restarts, why.message)));
    }
    if (ended != nullptr && !ended->is_failed) {
      // A Job with a lost pod never ends by itself; its other workers wait in vain.
      plan_.actions.push_back(DeleteJob{ended->name, ended->uid});
      return;
    }
    const WallTime start_at = failed_at + RestartDelay(plan_.status.restarts);
    if (ended != nullptr && seen_.now < start_at) {
      LookAgainAt(start_at);
    } else if (!HasLiveWorkers()) {
      Start({plan_.status.run_generation + 1, plan_.status.restarts + 1, failed_at});
    }
  }

  struct AskedRestart {
    std::string message;
    WallTime asked_at;
  };

  // The annotation names this very start, or did when the end of it began.
  std::optional<AskedRestart> RequestedRestart() const {
    const Condition* begun = api::FindCondition(job_.status.conditions, api::kRestartingCondition);
    const bool has_begun = begun != nullptr && begun->status == ConditionStatus::kTrue &&
                           begun->reason == kRestartRequested.reason &&
                           job_.status.run_generation == plan_.status.run_generation;
    if (has_begun) return AskedRestart{begun->message, begun->last_transition_time.value_or(seen_.now)};
    const auto reason = api::RequestedRestart(job_, plan_.status.run_generation);
    if (!reason) return std::nullopt;
    return AskedRestart{
        api::Say(kRestartRequested,
                 reason->empty() ? fmt::format("start {} was asked to end", plan_.status.run_generation) : *reason),
        seen_.now};
  }

  // Not a failure: no restart is counted, nothing is waited for but the end of the old workers. `running` is the Job
  // that still runs; null when it is gone.
  void RestartAsAsked(const AskedRestart& asked, const ObservedJob* running) {
    const std::string reason(kRestartRequested.reason);
    plan_.status.phase = JobPhase::kRestarting;
    Set(api::kRunningCondition, false, reason, asked.message);
    if (Set(api::kRestartingCondition, true, reason, asked.message)) {
      Tell("RestartRequested", "Restart", asked.message);
    }
    if (running != nullptr) {
      plan_.actions.push_back(DeleteJob{running->name, running->uid});
    } else if (!HasLiveWorkers()) {
      Start({plan_.status.run_generation + 1, plan_.status.restarts, asked.asked_at});
    }
  }

  void Fail(const Explanation& why, WallTime failed_at) {
    plan_.status.phase = JobPhase::kFailed;
    plan_.status.completion_time = failed_at;
    Set(api::kRestartingCondition, false, "Failed", "");
    Set(api::kFailedCondition, true, why.reason, why.message);
    Warn("Failed", "Fail", api::Say(kFailed, why.message));
    EndLeftJobs();
    PlanTtl();
  }

  // After the end nothing may go on running; Jobs that ended by themselves stay for their logs.
  void EndLeftJobs() {
    for (const ObservedJob& left : seen_.jobs) {
      if (!left.is_complete && !left.is_failed && !left.is_being_deleted)
        plan_.actions.push_back(DeleteJob{left.name, left.uid});
    }
  }

  // The status speaks of the new start only once its Job is there: until then a crash leaves everything as it was.
  void Start(const StartSpec& start) {
    plan_.actions.push_back(CreateJob{start});
    if (!plan_.status.phase || *plan_.status.phase == JobPhase::kSuspended) plan_.status.phase = JobPhase::kPending;
  }

  // The last failed Job stays for its logs; those before it go.
  void DropOlderJobs() {
    for (const ObservedJob& other : seen_.jobs) {
      if (other.generation + 1 < current_->generation && !other.is_being_deleted) {
        plan_.actions.push_back(DeleteJob{other.name, other.uid});
      }
    }
  }

  void PlanTtl() {
    if (!job_.spec.ttl_seconds_after_finished || !plan_.status.completion_time) return;
    const WallTime end = *plan_.status.completion_time + std::chrono::seconds(*job_.spec.ttl_seconds_after_finished);
    if (seen_.now >= end) {
      plan_.actions.push_back(DeleteTrainingJob{});
    } else {
      LookAgainAt(end);
    }
  }

  bool Set(std::string_view type, bool value, std::string reason, std::string message) {
    const Condition* before = api::FindCondition(plan_.status.conditions, type);
    // A condition that was never true needs no "False" entry, except the one about the configuration.
    if (before == nullptr && !value && type != api::kConfigurationValidCondition) return false;
    const bool status_changes =
        before == nullptr || (before->status == ConditionStatus::kTrue) != value || before->reason != reason;
    api::SetCondition(plan_.status.conditions,
                      {std::string(type), value ? ConditionStatus::kTrue : ConditionStatus::kFalse,
                       job_.metadata.generation, std::nullopt, std::move(reason), std::move(message)},
                      seen_.now);
    return status_changes;
  }

  void Tell(std::string reason, std::string action, std::string note) {
    plan_.events.push_back({false, std::move(reason), std::move(action), std::move(note)});
  }
  void Warn(std::string reason, std::string action, std::string note) {
    plan_.events.push_back({true, std::move(reason), std::move(action), std::move(note)});
  }
  void LookAgainAt(WallTime when) {
    const Duration delay = std::max<Duration>(when - seen_.now, std::chrono::milliseconds(1));
    plan_.look_again_after = plan_.look_again_after ? std::min(*plan_.look_again_after, delay) : delay;
  }

  const api::TrainingJob& job_;
  const TrainingJobObservation& seen_;
  const ObservedJob* current_ = nullptr;
  int64_t running_ = 0;
  TrainingJobPlan plan_;
};

}  // namespace

TrainingJobPlan PlanTrainingJob(const api::TrainingJob& job, const TrainingJobObservation& seen) {
  return Planner(job, seen).Plan();
}

Duration RestartDelay(int64_t restarts) {
  constexpr Duration kFirst = std::chrono::seconds(5);
  constexpr Duration kLongest = std::chrono::minutes(5);
  return restarts >= 6 ? kLongest : std::min(kLongest, kFirst * (int64_t{1} << restarts));
}

}  // namespace paceline::operator_
