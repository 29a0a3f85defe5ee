#include "operator/image/request_reconciler.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/api/annotations.h"
#include "lib/api/codec.h"
#include "lib/api/image_profile.h"
#include "lib/api/training_job.h"
#include "operator/kube_text.h"
#include "operator/messages.h"
#include "operator/names.h"
#include "operator/resources.h"
#include "operator/training_run/reconciler.h"

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;
using PodPointers = std::vector<std::shared_ptr<const kube::PodView>>;

constexpr size_t kMaxImages = 16;  // of one job

bool WantsConversion(const api::JobKind& kind, const kube::ObjectView& view, const Json& job, const PodPointers& pods) {
  if (kind.group == api::kGroup) {
    const Result<api::TrainingJob> training_job = api::FromJson<api::TrainingJob>(job);
    return training_job.ok() && training_job->spec.startup.image.convert == api::ConvertMode::kAuto;
  }
  const kube::StringMap none;
  const api::AnnotatedSettings settings = api::ParseAnnotations(
      ToTextMap(view.meta.annotations), ToTextMap(pods.empty() ? none : pods.front()->meta.annotations));
  return settings.is_enabled && settings.settings.startup.image.convert == api::ConvertMode::kAuto;
}

}  // namespace

Result<kube::Action> ImageRequestReconciler::Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token) {
  const auto job_key = JobKey::FromObjectKey(key);
  if (!job_key) return InvalidArgumentError("not a job: " + key.ToString());
  const JobObject view = env_.catalog.Find(*job_key);
  if (view == nullptr || !env_.catalog.IsTop(view->meta)) {
    Forget(key);
    return kube::Action::Done();
  }
  if (const Duration wait = pacer_.WaitBefore(key); wait > Duration::zero()) return kube::Action::RequeueAfter(wait);
  ASSIGN_OR_RETURN(const Json job, env_.catalog.Body(*job_key->kind, *view));
  const PodPointers pods = PodsOf(env_.catalog, env_.pods, *job_key, job);
  std::map<std::string, WallTime> images;
  if (WantsConversion(*job_key->kind, *view, job, pods)) {
    for (const PodImage& image : Wanted(key, job, pods)) {
      const std::string name = ImageProfileName(image.digest, image.platform);
      RETURN_IF_ERROR(Ensure(name, image, deadline));
      images.emplace(name, image.started);
    }
  }
  for (const std::string& profile : env_.users.Replace(key, kube::ReferenceTo(job), images)) env_.wake(profile);
  return kube::Action::Done();
}

std::vector<PodImage> ImageRequestReconciler::Wanted(const kube::ObjectKey& key, const Json& job,
                                                     const PodPointers& pods) {
  std::vector<PodImage> wanted;
  if (!options_.is_complete) {
    TellOnce(key, job, kConversionOff, "");
    return wanted;
  }
  const auto architecture_of = [this](std::string_view node) {
    const auto view = env_.nodes.Get("", node);
    return view == nullptr ? std::string() : view->status.info.architecture.str();
  };
  for (PodImage& image : ImagesOf(pods, architecture_of)) {
    if (image.digest.empty()) {
      TellOnce(key, job, kImageWithoutDigest,
               fmt::format("image {} is on its node without a digest", image.repository));
    } else if (!IsAllowedRepository(image.repository, options_.images)) {
      TellOnce(key, job, kImageNotAllowed, fmt::format("image {} may not be converted", image.repository));
    } else if (wanted.size() < kMaxImages) {
      wanted.push_back(std::move(image));
    }
  }
  return wanted;
}

Status ImageRequestReconciler::Ensure(const std::string& name, const PodImage& image, Deadline deadline) {
  if (env_.profiles.Get("", name) != nullptr) return Status();
  api::ImageProfile profile;
  profile.metadata.name = name;
  profile.metadata.labels.emplace(kManagedByLabel, kManagedByValue);
  profile.spec.image = image.repository;
  profile.spec.digest = image.digest;
  profile.spec.platform = image.platform;
  Json object = api::ToJson(profile);
  object.erase("status");
  const Result<Json> made =
      env_.client.Create(kImageProfiles, object, {.field_manager = std::string(kImageProfileManager)}, deadline);
  // Another job was first, or the cache is behind.
  if (made.status().code() == StatusCode::kAlreadyExists) return Status();
  return made.status();
}

void ImageRequestReconciler::TellOnce(const kube::ObjectKey& key, const Json& job, const api::Advice& advice,
                                      const std::string& what) {
  {
    MutexLock lock(mutex_);
    if (!told_[key].insert(std::string(advice.reason) + " " + what).second) return;
  }
  env_.recorder.Record({kube::ReferenceTo(job), std::nullopt, kube::EventType::kWarning, std::string(advice.reason),
                        "ConvertImage", api::Say(advice, what.empty() ? advice.happened : what)});
}

void ImageRequestReconciler::Forget(const kube::ObjectKey& key) {
  pacer_.Forget(key);
  for (const std::string& profile : env_.users.Replace(key, {}, {})) env_.wake(profile);
  MutexLock lock(mutex_);
  told_.erase(key);
}

}  // namespace paceline::operator_
