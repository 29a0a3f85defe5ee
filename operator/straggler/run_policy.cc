#include "operator/straggler/run_policy.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/api/annotations.h"
#include "lib/api/codec.h"
#include "lib/api/training_job.h"
#include "operator/kube_text.h"

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

constexpr Duration kLongestLook = std::chrono::seconds(10);

template <typename T>
std::optional<T> Find(const kube::Store<kube::ObjectView>& store, const kube::ObjectKey& key) {
  const auto view = store.Get(key);
  if (view == nullptr) return std::nullopt;
  const auto body = view->Body();
  if (!body.ok()) return std::nullopt;
  Result<T> object = api::FromJson<T>(*body);
  return object.ok() ? std::optional<T>(*std::move(object)) : std::nullopt;
}

}  // namespace

std::optional<std::string> PolicyNameOf(const JobCatalog& catalog, const api::TrainingRun& run) {
  const api::JobReference& named = run.spec.job;
  const api::JobKind* kind = api::FindJobKind(named.api_version, named.kind);
  if (kind == nullptr) return std::nullopt;
  const JobObject job = catalog.Find({kind, run.metadata.ns, named.name});
  if (job == nullptr || (!named.uid.empty() && job->meta.uid != named.uid)) return std::nullopt;
  if (kind->group != api::kGroup)
    return api::ParseAnnotations(ToTextMap(job->meta.annotations)).settings.straggler_policy;
  const auto body = job->Body();
  if (!body.ok()) return std::nullopt;
  const Result<api::TrainingJob> training_job = api::FromJson<api::TrainingJob>(*body);
  return training_job.ok() ? std::optional(training_job->spec.straggler_policy) : std::nullopt;
}

std::optional<api::StragglerPolicy> FindPolicy(const kube::Store<kube::ObjectView>& policies, const std::string& name) {
  return name.empty() ? std::nullopt : Find<api::StragglerPolicy>(policies, {"", name});
}

std::optional<api::TrainingRun> FindTrainingRun(const kube::Store<kube::ObjectView>& runs, const kube::ObjectKey& key) {
  std::optional<api::TrainingRun> run = Find<api::TrainingRun>(runs, key);
  return run && !run->metadata.deletion_timestamp ? run : std::nullopt;
}

analysis::StragglerOptions OptionsOf(const api::Detection& detection) {
  analysis::StragglerOptions options;
  options.windows.window = std::max(detection.window, analysis::kPaceWindow);
  options.windows.windows = static_cast<int>(detection.windows);
  options.windows.maximum_missing = detection.maximum_missing_ratio;
  options.required = static_cast<int>(detection.required);
  options.threshold = detection.slowdown_threshold;
  return options;
}

Duration LookPeriod(const api::Detection& detection) {
  return std::clamp(detection.window, analysis::kPaceWindow, kLongestLook);
}

}  // namespace paceline::operator_
