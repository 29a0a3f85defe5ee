#include "operator/webhook/pod_webhook.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/api/annotations.h"
#include "lib/api/codec.h"
#include "lib/api/names.h"
#include "lib/api/training_job.h"
#include "lib/base/json.h"
#include "operator/messages.h"
#include "operator/run_identity.h"
#include "operator/webhook/injection.h"
#include "operator/webhook/placement.h"

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

// Owners between a pod and its job that are read only to follow the chain up.
const kube::Resource kStatefulSets{"apps", "v1", "statefulsets", "StatefulSet", true};
const kube::Resource kRayClusters{"ray.io", "v1", "rayclusters", "RayCluster", true};
const kube::Resource kJobSets{"jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", true};

kube::OwnerLookup MakeLookup(const JobCatalog& catalog, kube::Reader& server, Duration timeout, const Clock& clock) {
  kube::CacheLookup cache = [&catalog](const kube::Resource& resource,
                                       const kube::ObjectKey& key) -> std::shared_ptr<const Json> {
    const api::JobKind* kind = api::FindJobKind(resource.ApiVersion(), resource.kind);
    const JobObject object = kind == nullptr ? nullptr : catalog.Find({kind, key.ns, key.name});
    if (object == nullptr) return nullptr;
    auto body = catalog.Body(*kind, *object);
    return body.ok() ? std::make_shared<const Json>(*std::move(body)) : nullptr;
  };
  kube::ResourceOfKind resources = [&catalog](std::string_view group,
                                              std::string_view kind) -> std::optional<kube::Resource> {
    if (auto known = catalog.ResourceOf(group, kind)) return known;
    for (const kube::Resource* resource : {&kube::kPods, &kube::kJobs, &kStatefulSets, &kRayClusters, &kJobSets}) {
      if (resource->group == group && resource->kind == kind) return *resource;
    }
    return std::nullopt;
  };
  return kube::CacheThenServer(std::move(cache), server, std::move(resources), timeout, clock);
}

std::map<std::string, std::string> AnnotationsOf(const Json& object) {
  std::map<std::string, std::string> out;
  const auto meta = object.find("metadata");
  if (meta == object.end() || !meta->is_object()) return out;
  const auto annotations = meta->find("annotations");
  if (annotations == meta->end() || !annotations->is_object()) return out;
  for (const auto& [key, value] : annotations->items()) {
    if (value.is_string()) out.emplace(key, value.get<std::string>());
  }
  return out;
}

// What the spec of a TrainingJob says.
bool IsTraced(const Json& job) {
  const auto spec = job.find("spec");
  if (spec == job.end() || !spec->is_object()) return false;
  const auto tracing = spec->find("tracing");
  if (tracing == spec->end() || !tracing->is_object()) return false;
  const auto enabled = tracing->find("enabled");
  return enabled != tracing->end() && enabled->is_boolean() && enabled->get<bool>();
}

// Likewise.
std::optional<api::DependencySettings> DependenciesOf(const Json& job) {
  if (FindJson(job, "spec.startup.dependencies") == nullptr) return std::nullopt;
  const Result<api::TrainingJob> parsed = api::FromJson<api::TrainingJob>(job);
  return parsed.ok() ? parsed->spec.startup.dependencies : std::nullopt;
}

RunIdentity ToRunIdentity(const api::JobIdentity& identity) {
  return {
      std::string(identity.kind->kind), identity.name, identity.uid, identity.gang, identity.generation, identity.rank};
}

}  // namespace

PodWebhook::PodWebhook(const PodWebhookOptions& options, const PodWebhookEnvironment& environment)
    : options_(options),
      environment_(environment),
      lookup_(MakeLookup(environment.catalog, environment.server, options.owner_lookup_timeout, environment.clock)),
      installs_(environment.images, environment.server, options.install_lookup_timeout, environment.clock) {}

std::optional<PodWebhook::Found> PodWebhook::Identify(const kube::AdmissionRequest& request, Deadline deadline) const {
  const Json& pod = *request.object;
  const kube::OwnerChain chain = kube::WalkOwners(pod, request.ns, lookup_, deadline);
  // The highest owner of a known kind: a JobSet above its Job.
  for (auto step = chain.steps.rbegin(); step != chain.steps.rend(); ++step) {
    if (step->object == nullptr) continue;
    const std::string api_version = step->object->value("apiVersion", "");
    if (api::FindJobKind(api_version, step->reference.kind) == nullptr) continue;
    api::PodView view = api::MakePodView(pod);
    view.ns = request.ns;
    const Result<api::JobIdentity> identity = api::IdentifyPod(view, *step->object);
    if (!identity.ok()) return std::nullopt;
    Found found{ToRunIdentity(*identity), {}, {}, false, {}, kube::ReferenceTo(*step->object)};
    if (identity->kind->group == api::kGroup) {
      found.is_traced = IsTraced(*step->object);
      found.dependencies = DependenciesOf(*step->object);
      return found;
    }
    api::AnnotatedSettings settings = api::ParseAnnotations(AnnotationsOf(*step->object), AnnotationsOf(pod));
    // Launchers and heads are the job's own business.
    if (!settings.is_enabled || !identity->carries_rank) return std::nullopt;
    found.errors = std::move(settings.errors);
    found.checkpoints = std::move(settings.settings.checkpoints);
    found.is_traced = settings.settings.tracing.enabled;
    found.dependencies = std::move(settings.settings.startup.dependencies);
    return found;
  }
  return std::nullopt;
}

// Empty when the nodes have several, or none has told its own.
std::string PodWebhook::ArchitectureFor(const Json& pod) const {
  constexpr std::string_view kLabel = "kubernetes.io/arch";
  const Json* chosen = FindJsonAt(pod, {"spec", "nodeSelector", std::string(kLabel)});
  if (chosen != nullptr && chosen->is_string()) return chosen->get<std::string>();
  std::string architecture;
  for (const auto& node : environment_.nodes.List()) {
    const kube::SharedString* label = node->meta.labels.Find(kLabel);
    if (label == nullptr) continue;
    if (!architecture.empty() && *label != architecture) return "";
    architecture = label->str();
  }
  return architecture;
}

std::optional<InjectedInstall> PodWebhook::PlanInstall(const kube::AdmissionRequest& request, const Found& found,
                                                       const std::string& why_no_volume, Deadline deadline,
                                                       std::vector<std::string>* warnings) const {
  if (!found.dependencies || HasInstall(*request.object)) return std::nullopt;
  PlannedInstall planned = installs_.Plan(
      {*request.object, request.ns, *found.dependencies, ArchitectureFor(*request.object), why_no_volume}, deadline);
  const auto tell = [&](const api::Advice& advice, const std::string& why) {
    if (why.empty()) return;
    warnings->push_back("paceline: dependencies: " + why);
    if (request.is_dry_run) return;
    environment_.events.Record({found.job, std::nullopt, kube::EventType::kWarning, std::string(advice.reason),
                                "AdmitPod", api::Say(advice, "dependencies: " + why)});
  };
  tell(kDependenciesNotCacheable, planned.not_cacheable);
  tell(kDependenciesNotInstalled, planned.not_installed);
  return std::move(planned.install);
}

Result<kube::AdmissionResponse> PodWebhook::Handle(const kube::AdmissionRequest& request, Deadline deadline) const {
  kube::AdmissionResponse response;
  if (request.operation != "CREATE" || request.kind != "Pod" || !request.object->is_object()) return response;
  const std::optional<Found> found = Identify(request, deadline);
  if (!found) return response;
  for (const api::FieldError& error : found->errors) response.warnings.push_back("paceline: " + error.ToString());

  InjectedVolumes volumes{options_.adds_stage_volume, found->is_traced, found->checkpoints, std::nullopt};
  std::string why;
  if (volumes.stage || volumes.trace || found->dependencies) {
    why = WhyNoVolume(
        *request.object, environment_.nodes.List(),
        [this](std::string_view node) { return environment_.reports.Silence(node); }, options_.agent_silence_limit);
    if (!why.empty() && (volumes.stage || volumes.trace)) {
      const char* what = !volumes.trace ? "stage volume" : volumes.stage ? "stage volume and no trace" : "trace";
      response.warnings.push_back(fmt::format("paceline: no {}: {}", what, why));
      volumes.stage = volumes.trace = false;
    }
  }
  volumes.install = PlanInstall(request, *found, why, deadline, &response.warnings);
  Json patch = InjectionPatch(*request.object, found->identity, std::move(volumes));
  if (!patch.empty()) response.patch = std::make_shared<const Json>(std::move(patch));
  return response;
}

}  // namespace paceline::operator_
