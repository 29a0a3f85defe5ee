#include "operator/training_job/reconciler.h"

#include <nlohmann/json.hpp>

#include "lib/api/codec.h"
#include "lib/kube/apply.h"
#include "operator/messages.h"
#include "operator/names.h"
#include "operator/resources.h"
#include "operator/training_job/apply.h"
#include "operator/training_job/observe.h"
#include "operator/training_job/plan.h"

namespace paceline::operator_ {
namespace {

using api::TrainingJob;
using Json = nlohmann::json;

Json StatusOf(const TrainingJob& job, const api::TrainingJobStatus& status) {
  TrainingJob copy;
  copy.metadata.name = job.metadata.name;
  copy.status = status;
  Json json = api::ToJson(copy);
  return json.value("status", Json::object());
}

// One pass over one job.
class JobPass {
 public:
  JobPass(const TrainingJobEnvironment& env, TrainingJob job, kube::ObjectReference reference, Deadline deadline)
      : env_(env), job_(std::move(job)), reference_(std::move(reference)), deadline_(deadline) {}

  Result<kube::Action> Run() {
    TrainingJobObservation seen = Observe();
    TrainingJobPlan plan = PlanTrainingJob(job_, seen);
    if (const auto* confirm = FindConfirm(plan)) {
      RETURN_IF_ERROR(Confirm(confirm->generation, seen));
      plan = PlanTrainingJob(job_, seen);
    }
    ASSIGN_OR_RETURN(const JobRefusal refusal, ApplyCreations(job_, plan.actions, env_.client, deadline_));
    if (!refusal.reason.empty()) {
      seen.refusal_reason = refusal.reason;
      seen.refusal_message = refusal.message;
      plan = PlanTrainingJob(job_, seen);
    }
    RETURN_IF_ERROR(WriteStatus(plan.status));
    for (PlannedEvent& event : plan.events) Tell(std::move(event));
    RETURN_IF_ERROR(ApplyDeletions(job_, plan.actions, env_.client, deadline_));
    return plan.look_again_after ? kube::Action::RequeueAfter(*plan.look_again_after) : kube::Action::Done();
  }

 private:
  TrainingJobObservation Observe() const {
    TrainingJobObservation seen;
    seen.now = env_.clock.WallNow();
    const std::string& uid = job_.metadata.uid;
    int64_t newest = job_.status.run_generation;
    for (const auto& job : env_.jobs.ListBy(api::kJobUidLabel, uid)) {
      const kube::OwnerReference* owner = job->meta.Controller();
      if (owner == nullptr || owner->uid != uid) continue;  // labels can be copied
      if (auto observed = ObserveJob(*job)) {
        newest = std::max(newest, observed->generation);
        seen.jobs.push_back(std::move(*observed));
      }
    }
    const auto pods = env_.pods.ListBy(api::kJobUidLabel, uid);
    for (const auto& pod : pods) {
      if (auto worker = ObserveWorker(*pod)) seen.workers.push_back(*worker);
    }
    seen.failure = FirstFailure(pods, newest);
    for (const auto& service : env_.services.ListBy(api::kJobUidLabel, uid)) {
      const kube::OwnerReference* owner = service->meta.Controller();
      seen.has_service |= owner != nullptr && owner->uid == uid &&
                          service->meta.name == ServiceName(job_.metadata.name) && !service->meta.IsBeingDeleted();
    }
    return seen;
  }

  static const ConfirmJob* FindConfirm(const TrainingJobPlan& plan) {
    for (const TrainingJobAction& action : plan.actions) {
      if (const auto* confirm = std::get_if<ConfirmJob>(&action)) return confirm;
    }
    return nullptr;
  }

  Status Confirm(int64_t generation, TrainingJobObservation& seen) const {
    const kube::ObjectKey key{job_.metadata.ns, JobName(job_.metadata.name, generation)};
    const Result<Json> live = env_.client.Get(kube::kJobs, key, deadline_);
    if (live.status().code() == StatusCode::kNotFound) {
      seen.is_current_job_gone = true;
      return Status();
    }
    if (!live.ok()) return live.status();
    ASSIGN_OR_RETURN(const kube::JobView view, kube::ViewFromJson<kube::JobView>(*live));
    auto observed = ObserveJob(view);
    const kube::OwnerReference* owner = view.meta.Controller();
    if (!observed || owner == nullptr || owner->uid != job_.metadata.uid) {
      seen.is_current_job_gone = true;  // ours is gone and somebody else took the name
    } else {
      seen.jobs.push_back(std::move(*observed));
    }
    return Status();
  }

  Status WriteStatus(const api::TrainingJobStatus& status) const {
    Json after = StatusOf(job_, status);
    if (after == StatusOf(job_, job_.status)) return Status();
    // The resource version makes a decision from an old copy fail instead of going back in time.
    const Json object = {{"metadata",
                          {{"name", job_.metadata.name},
                           {"namespace", job_.metadata.ns},
                           {"uid", job_.metadata.uid},
                           {"resourceVersion", job_.metadata.resource_version}}},
                         {"status", std::move(after)}};
    const Result<Json> written =
        kube::Apply(env_.client, kTrainingJobs, object, std::string(kTrainingJobManager), deadline_, "status");
    if (written.status().code() == StatusCode::kNotFound) return Status();  // deleted meanwhile
    return written.status();
  }

  void Tell(PlannedEvent event) const {
    env_.events.Record({reference_, std::nullopt,
                        event.is_warning ? kube::EventType::kWarning : kube::EventType::kNormal,
                        std::move(event.reason), std::move(event.action), std::move(event.note)});
  }

  const TrainingJobEnvironment& env_;
  const TrainingJob job_;
  const kube::ObjectReference reference_;
  const Deadline deadline_;
};

// A job that an older or laxer CRD let in, so broken that its fields cannot be read.
Result<kube::Action> ReportUnreadable(const TrainingJobEnvironment& env, const Json& body, const Status& why,
                                      Deadline deadline) {
  const kube::ObjectReference reference = kube::ReferenceTo(body);
  const std::string message = api::Say(RefusalAdvice("InvalidSpec"), why.message());
  Json conditions;
  if (const auto status = body.find("status"); status != body.end() && status->is_object()) {
    conditions = status->value("conditions", Json());
  }
  if (!conditions.is_array()) conditions = Json();
  const int64_t generation = body["metadata"].value("generation", int64_t{0});
  const bool changed = kube::SetCondition(conditions,
                                          {std::string(api::kConfigurationValidCondition),
                                           kube::ConditionStatus::kFalse, "InvalidSpec", message, generation},
                                          env.clock.WallNow());
  if (!changed) return kube::Action::Done();
  const Json patch = {
      {"status", {{"conditions", conditions}, {"phase", "Pending"}, {"observedGeneration", generation}}}};
  const Result<Json> written =
      env.client.Patch(kTrainingJobs, {reference.ns, reference.name}, kube::PatchType::kMerge, patch,
                       {.subresource = "status", .field_manager = std::string(kTrainingJobManager)}, deadline);
  if (!written.ok()) return written.status();
  env.events.Record({reference, std::nullopt, kube::EventType::kWarning, "InvalidSpec", "Validate", message});
  return kube::Action::Done();
}

}  // namespace

Result<kube::Action> TrainingJobReconciler::Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token) {
  const auto view = env_.training_jobs.Get(key);
  if (view == nullptr) {
    pacer_.Forget(key);
    return kube::Action::Done();
  }
  if (const Duration wait = pacer_.WaitBefore(key); wait > Duration::zero()) return kube::Action::RequeueAfter(wait);
  ASSIGN_OR_RETURN(const Json body, view->Body());
  Result<TrainingJob> job = api::FromJson<TrainingJob>(body);
  if (!job.ok()) return ReportUnreadable(env_, body, job.status(), deadline);
  return JobPass(env_, std::move(*job), kube::ReferenceTo(body), deadline).Run();
}

}  // namespace paceline::operator_
