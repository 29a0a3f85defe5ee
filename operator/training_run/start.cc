#include "operator/training_run/start.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/api/names.h"
#include "operator/jobs/job_facts.h"
#include "operator/kube_text.h"
#include "operator/training_job/manifest.h"

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

std::optional<WallTime> RequestedAt(const kube::JobView& child_job) {
  const std::string_view text = child_job.meta.annotations.Get(kRequestedAtAnnotation);
  if (text.empty()) return std::nullopt;
  const Result<WallTime> time = ParseRfc3339(text);
  return time.ok() ? std::optional(*time) : std::nullopt;
}

StartEnd EndOfChild(const kube::JobView& child) {
  if (kube::IsConditionTrue(child.status.conditions, "Complete")) {
    const WallTime end = child.status.completion_time;
    return {JobEnd::kSucceeded, "", "", end == kube::kNoTime ? std::nullopt : std::optional(end)};
  }
  const kube::Condition* failed = kube::FindCondition(child.status.conditions, "Failed");
  if (failed != nullptr && failed->status == "True") {
    return {JobEnd::kFailed, failed->reason.str(), failed->message.str(), failed->last_transition_time};
  }
  return {};
}

}  // namespace

api::PodView ToApiPod(const kube::PodView& pod) {
  api::PodView view;
  view.ns = pod.meta.ns.str();
  view.name = pod.meta.name.str();
  view.uid = pod.meta.uid.str();
  view.labels = ToTextMap(pod.meta.labels);
  view.annotations = ToTextMap(pod.meta.annotations);
  for (const kube::OwnerReference& owner : pod.meta.owners) {
    view.owners.push_back(
        {owner.api_version.str(), owner.kind.str(), owner.name.str(), owner.uid.str(), owner.is_controller, false});
  }
  return view;
}

Result<std::map<StartKey, JobStart>> GroupStarts(const Json& job, const std::vector<PodPointer>& pods) {
  std::map<StartKey, JobStart> starts;
  ASSIGN_OR_RETURN(api::JobIdentity of_job, api::IdentifyJob(job));
  const bool has_gangs = !of_job.kind->gang.key.empty();
  if (!has_gangs) starts[{"", of_job.generation}].identity = of_job;
  for (const PodPointer& pod : pods) {
    const Result<api::JobIdentity> identity = api::IdentifyPod(ToApiPod(*pod), job);
    if (!identity.ok() || !identity->carries_rank) continue;
    JobStart& start = starts[{identity->gang, identity->generation}];
    if (start.identity.kind == nullptr) {
      start.identity = *identity;
      start.identity.rank.reset();
    }
    start.pods.push_back({pod, identity->rank});
  }
  return starts;
}

Moment StartMoment(const Json& job, const kube::ObjectMeta& job_meta, std::optional<WallTime> job_observed,
                   const JobStart& start, const kube::JobView* child_job, const api::TrainingRunStatus* before) {
  if (child_job != nullptr) {
    if (const auto requested = RequestedAt(*child_job)) return ExactMoment(*requested, StageSource::kPodCondition);
  }
  const Moment created = SecondMoment(job_meta.creation_time, job_observed, StageSource::kPodCondition);
  if (start.identity.generation > 0 && child_job == nullptr) {
    // Other kinds' controllers do not say when they decided to restart: it was when the start before had ended, or, not
    // knowing that, when the first pod was made.
    if (before != nullptr && before->finished_at)
      return ExactMoment(*before->finished_at, StageSource::kContainerStatus);
    std::optional<WallTime> first_pod;
    for (const StartPod& pod : start.pods) {
      if (!first_pod || pod.pod->meta.creation_time < *first_pod) first_pod = pod.pod->meta.creation_time;
    }
    return first_pod ? SecondMoment(*first_pod, std::nullopt, StageSource::kPodCondition) : created;
  }
  if (const auto resumed = ResumedAt(job); resumed && *resumed > created.latest && child_job == nullptr) {
    return SecondMoment(*resumed, std::nullopt, StageSource::kPodCondition);
  }
  return created;
}

StartEnd EndOfStart(const api::JobKind& kind, const Json& job, const kube::JobView* child_job, bool is_latest) {
  if (child_job != nullptr) {
    StartEnd end = EndOfChild(*child_job);
    if (end.end != JobEnd::kOpen || is_latest) return end;
  }
  if (!is_latest) return {JobEnd::kAbandoned, "", "", std::nullopt};
  const JobEndFacts facts = ReadJobEnd(kind, job);
  switch (facts.end) {
    case ReportedEnd::kOpen: return {JobEnd::kOpen, "", "", std::nullopt};
    case ReportedEnd::kSucceeded: return {JobEnd::kSucceeded, "", "", facts.time};
    case ReportedEnd::kFailed: return {JobEnd::kFailed, facts.reason, facts.message, facts.time};
    case ReportedEnd::kUnreported: return {JobEnd::kUnreported, "", "", std::nullopt};
  }
  return {};
}

}  // namespace paceline::operator_
