#include "operator/image/profile_reconciler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/api/codec.h"
#include "lib/kube/apply.h"
#include "operator/messages.h"
#include "operator/names.h"
#include "operator/resources.h"

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

constexpr Duration kUseStep = std::chrono::minutes(1);  // lastUsed is not written for less

bool IsReadyIn(const api::ImageProfileStatus& status, const std::string& store) {
  return status.state == api::ConversionState::kReady && status.artifact && status.artifact->repository == store;
}

bool IsOver(const Json& job) {
  const Result<kube::JobView> view = kube::ViewFromJson<kube::JobView>(job);
  return view.ok() && (kube::IsConditionTrue(view->status.conditions, "Complete") ||
                       kube::IsConditionTrue(view->status.conditions, "Failed"));
}

Json StatusJson(api::ImageProfile profile, const api::ImageProfileStatus& status) {
  profile.status = status;
  return api::ToJson(profile).value("status", Json::object());
}

Result<std::optional<api::ImageProfile>> ReadProfile(const kube::ObjectView& view) {
  ASSIGN_OR_RETURN(const Json body, view.Body());
  ASSIGN_OR_RETURN(api::ImageProfile profile, api::FromJson<api::ImageProfile>(body));
  return std::optional(std::move(profile));
}

// What nodes say of the image: its hot set, and how well that served. The ratio is written in whole percents, since it
// moves with every read.
void AddUse(const std::vector<api::ImageReport>& reports, api::ImageProfileStatus* status) {
  api::ImageFigures fetched;
  for (const api::ImageReport& report : reports) {
    if (!report.hot_set_digest.empty()) {
      api::HotSet set = status->hot_set.value_or(api::HotSet{});
      // The set that somebody fetched is the one that nodes share.
      const bool is_shared = report.hot_set == api::HotSetState::kFetched;
      const bool is_new = set.digest != report.hot_set_digest;
      if (set.version == 0 || (is_new && is_shared)) {
        set = {set.version + 1, report.hot_set_digest, report.hot_set_bytes, report.hot_set_chunks, ""};
      }
      status->hot_set = std::move(set);
    }
    if (!report.figures || report.hot_set != api::HotSetState::kFetched) continue;
    fetched.hits += report.figures->hits;
    fetched.misses += report.figures->misses;
  }
  if (const auto ratio = api::HitRatio(fetched)) status->hit_ratio = std::round(*ratio * 100) / 100;
}

}  // namespace

kube::CacheIndex<kube::ObjectView> ProfileManifestIndex() {
  return {std::string(kProfileManifestIndex), [](const kube::ObjectView& view, std::vector<kube::SharedString>* keys) {
            const auto profile = ReadProfile(view);
            if (profile.ok() && !(*profile)->status.manifest.empty()) keys->emplace_back((*profile)->status.manifest);
          }};
}

ImageProfileReconciler::ImageProfileReconciler(const ImageProfileEnvironment& environment, ImageProfileOptions options)
    : env_(environment),
      options_(std::move(options)),
      conversions_(env_.metrics.CounterFamily(
          {"paceline_image_conversions_total",
           "Conversions of images that ended, by what came of them: Converted, or the reason of the failure.",
           {"result"}})),
      seconds_(env_.metrics.HistogramFamily(
          {"paceline_image_conversion_duration_seconds", "Duration of conversions that ended well.", {}},
          {1, 3, 10, 30, 100, 300, 1000, 3000, 10000})) {}

Result<kube::Action> ImageProfileReconciler::Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token) {
  if (!options_.job.is_complete()) return kube::Action::Done();
  const auto cached = env_.profiles.Get("", key.name);
  if (cached == nullptr) return kube::Action::Done();
  ASSIGN_OR_RETURN(std::optional<api::ImageProfile> profile, ReadProfile(*cached));
  const bool has_job = env_.conversions.Get(options_.job.ns, ConversionJobName(key.name)) != nullptr;
  ConversionPlan plan;
  plan.status = profile->status;
  std::optional<ConversionJobFacts> job;
  if (!IsReadyIn(profile->status, options_.job.store) || has_job) {
    ASSIGN_OR_RETURN(profile, FetchProfile(key.name, deadline));
    if (!profile) return kube::Action::Done();
    ASSIGN_OR_RETURN(job, FetchJob(*profile, deadline));
    ASSIGN_OR_RETURN(plan, Carry(*profile, job, deadline));
  }
  const WallTime last_start = env_.users.LastStart(key.name);
  if (last_start != kube::kNoTime && last_start - plan.status.last_used.value_or(kube::kNoTime) >= kUseStep) {
    plan.status.last_used = last_start;
  }
  if (!plan.status.manifest.empty()) AddUse(env_.reports.ReportsOfManifest(plan.status.manifest), &plan.status);
  if (StatusJson(*profile, plan.status) != StatusJson(*profile, profile->status)) {
    RETURN_IF_ERROR(Write(*profile, plan.status, deadline));
    Count(plan, job);
    if (plan.news != nullptr) Tell(*profile, plan);
  }
  if (plan.step == ConversionStep::kDeleteJob) RETURN_IF_ERROR(DeleteJob(*profile, job->uid, deadline));
  return plan.look_again ? kube::Action::RequeueAfter(*plan.look_again) : kube::Action::Done();
}

Result<ConversionPlan> ImageProfileReconciler::Carry(const api::ImageProfile& profile,
                                                     const std::optional<ConversionJobFacts>& job, Deadline deadline) {
  ConversionInput input{
      profile, job, options_.job.store, "", env_.users.IsWanted(profile.metadata.name), true, env_.clock.WallNow()};
  ConversionPlan plan = PlanConversion(input);
  if (plan.step != ConversionStep::kCreateJob) return plan;
  ASSIGN_OR_RETURN(input.has_room, HasRoom(deadline));
  if (!input.has_room) return PlanConversion(input);
  const Status made = env_.client
                          .Create(kube::kJobs, ConversionJobManifest(profile, options_.job),
                                  {.field_manager = std::string(kImageProfileManager)}, deadline)
                          .status();
  switch (made.code()) {
    case StatusCode::kOk: return plan;
    case StatusCode::kInvalidArgument:
    case StatusCode::kPermissionDenied:
    case StatusCode::kNotFound:  // there is no such namespace
      input.refused = made.message();
      return PlanConversion(input);
    default: return made;  // of kAlreadyExists the next look finds whose it is
  }
}

Result<std::optional<api::ImageProfile>> ImageProfileReconciler::FetchProfile(const std::string& name,
                                                                              Deadline deadline) {
  const Result<Json> object = env_.client.Get(kImageProfiles, {"", name}, deadline);
  if (object.status().code() == StatusCode::kNotFound) return std::optional<api::ImageProfile>();
  if (!object.ok()) return object.status();
  if (kube::IsBeingDeleted(*object)) return std::optional<api::ImageProfile>();
  ASSIGN_OR_RETURN(api::ImageProfile profile, api::FromJson<api::ImageProfile>(*object));
  return std::optional(std::move(profile));
}

Result<std::optional<ConversionJobFacts>> ImageProfileReconciler::FetchJob(const api::ImageProfile& profile,
                                                                           Deadline deadline) {
  const std::string name = ConversionJobName(profile.metadata.name);
  const Result<Json> job = env_.client.Get(kube::kJobs, {options_.job.ns, name}, deadline);
  if (job.status().code() == StatusCode::kNotFound) return std::optional<ConversionJobFacts>();
  if (!job.ok()) return job.status();
  ASSIGN_OR_RETURN(
      const kube::ObjectList pods,
      env_.client.List(kube::kPods, {.ns = options_.job.ns, .label_selector = "batch.kubernetes.io/job-name=" + name},
                       deadline));
  const Json* pod = nullptr;
  for (const Json& candidate : pods.items) {
    if (kube::IsControlledBy(candidate, *job)) pod = &candidate;
  }
  return std::optional(ReadConversionJob(*job, pod, profile));
}

Result<bool> ImageProfileReconciler::HasRoom(Deadline deadline) {
  ASSIGN_OR_RETURN(
      const kube::ObjectList jobs,
      env_.client.List(kube::kJobs, {.ns = options_.job.ns, .label_selector = std::string(kConversionLabel) + "=true"},
                       deadline));
  const auto running =
      std::count_if(jobs.items.begin(), jobs.items.end(), [](const Json& job) { return !IsOver(job); });
  return running < options_.at_once;
}

Status ImageProfileReconciler::Write(const api::ImageProfile& profile, const api::ImageProfileStatus& status,
                                     Deadline deadline) {
  const Json object = {{"metadata", {{"name", profile.metadata.name}, {"uid", profile.metadata.uid}}},
                       {"status", StatusJson(profile, status)}};
  const Status written =
      kube::Apply(env_.client, kImageProfiles, object, std::string(kImageProfileManager), deadline, "status").status();
  return written.code() == StatusCode::kNotFound ? Status() : written;  // deleted meanwhile
}

Status ImageProfileReconciler::DeleteJob(const api::ImageProfile& profile, const std::string& uid, Deadline deadline) {
  const Status done = env_.client.Delete(kube::kJobs, {options_.job.ns, ConversionJobName(profile.metadata.name)},
                                         {.uid_precondition = uid, .propagation_policy = "Background"}, deadline);
  const bool is_gone = done.code() == StatusCode::kNotFound || done.code() == StatusCode::kAborted;
  return is_gone ? Status() : done;
}

void ImageProfileReconciler::Tell(const api::ImageProfile& profile, const ConversionPlan& plan) {
  const api::Condition* condition = api::FindCondition(plan.status.conditions, kConvertedCondition);
  const kube::ObjectReference related{std::string(api::kApiVersion),
                                      std::string(api::kImageProfileKind.kind),
                                      "",
                                      profile.metadata.name,
                                      profile.metadata.uid,
                                      ""};
  const bool has_failed = plan.status.state == api::ConversionState::kFailed;
  for (const kube::ObjectReference& job : env_.users.JobsOf(profile.metadata.name)) {
    env_.recorder.Record({job, related, has_failed ? kube::EventType::kWarning : kube::EventType::kNormal,
                          condition->reason, "ConvertImage", condition->message});
  }
}

void ImageProfileReconciler::Count(const ConversionPlan& plan, const std::optional<ConversionJobFacts>& job) {
  if (plan.news == nullptr || !job) return;
  if (plan.status.state == api::ConversionState::kReady) {
    conversions_.With({"Converted"}).Add();
    seconds_.With({}).Observe(job->report->seconds);
  } else if (plan.status.state == api::ConversionState::kFailed) {
    conversions_.With({std::string(plan.news->reason)}).Add();
  }
}

}  // namespace paceline::operator_
