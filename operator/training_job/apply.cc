#include "operator/training_job/apply.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/kube/apply.h"
#include "operator/messages.h"
#include "operator/names.h"
#include "operator/resources.h"

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

bool IsOwnedBy(const Json& object, const std::string& uid) {
  const auto meta = object.find("metadata");
  if (meta == object.end() || !meta->contains("ownerReferences")) return false;
  for (const Json& owner : (*meta)["ownerReferences"]) {
    if (owner.is_object() && owner.value("controller", false) && owner.value("uid", "") == uid) return true;
  }
  return false;
}

Result<JobRefusal> CreateOwned(const api::TrainingJob& job, const kube::Resource& resource, const Json& manifest,
                               kube::Client& client, Deadline deadline) {
  const kube::ObjectKey key{job.metadata.ns, manifest["metadata"]["name"].get<std::string>()};
  const Result<Json> made =
      client.Create(resource, manifest, {.field_manager = std::string(kTrainingJobManager)}, deadline);
  if (made.ok()) return JobRefusal{};
  switch (made.status().code()) {
    case StatusCode::kAlreadyExists: break;
    case StatusCode::kInvalidArgument:
      return JobRefusal{resource.kind + "Rejected",
                        api::Say(RefusalAdvice(resource.kind + "Rejected"),
                                 fmt::format("the API server does not accept the {} that this job needs: {}",
                                             resource.kind, made.status().message()))};
    case StatusCode::kPermissionDenied:
      return JobRefusal{"NotAllowed",
                        api::Say(RefusalAdvice("NotAllowed"),
                                 fmt::format("the {} may not be made: {}", resource.kind, made.status().message()))};
    default: return made.status();
  }
  Result<Json> existing = client.Get(resource, key, deadline);
  if (!existing.ok()) return existing.status();  // gone again: the next pass makes it
  if (IsOwnedBy(*existing, job.metadata.uid)) {
    if (!kube::IsBeingDeleted(*existing)) return JobRefusal{};
    return UnavailableError(fmt::format("{} {} is being deleted", resource.Display(), key.ToString()));
  }
  return JobRefusal{"NameConflict", api::Say(RefusalAdvice("NameConflict"),
                                             fmt::format("{} \"{}\" exists and does not belong to this TrainingJob",
                                                         resource.kind, key.name))};
}

}  // namespace

Result<JobRefusal> ApplyCreations(const api::TrainingJob& job, const std::vector<TrainingJobAction>& actions,
                                  kube::Client& client, Deadline deadline) {
  for (const TrainingJobAction& action : actions) {
    Result<JobRefusal> refusal = JobRefusal{};
    if (std::holds_alternative<CreateService>(action)) {
      refusal = CreateOwned(job, kube::kServices, ServiceManifest(job), client, deadline);
    } else if (const auto* create = std::get_if<CreateJob>(&action)) {
      refusal = CreateOwned(job, kube::kJobs, JobManifest(job, create->start), client, deadline);
    }
    if (!refusal.ok() || !refusal->reason.empty()) return refusal;
  }
  return JobRefusal{};
}

Status ApplyDeletions(const api::TrainingJob& job, const std::vector<TrainingJobAction>& actions, kube::Writer& writer,
                      Deadline deadline) {
  for (const TrainingJobAction& action : actions) {
    Status done;
    if (const auto* remove = std::get_if<DeleteJob>(&action)) {
      done = writer.Delete(kube::kJobs, {job.metadata.ns, remove->name},
                           {.uid_precondition = remove->uid, .propagation_policy = "Background"}, deadline);
    } else if (std::holds_alternative<DeleteTrainingJob>(action)) {
      done = writer.Delete(kTrainingJobs, {job.metadata.ns, job.metadata.name},
                           {.uid_precondition = job.metadata.uid, .propagation_policy = "Background"}, deadline);
    }
    // kAborted: another object of that name by now, which is not ours to delete.
    if (!done.ok() && done.code() != StatusCode::kNotFound && done.code() != StatusCode::kAborted) return done;
  }
  return Status();
}

}  // namespace paceline::operator_
