#include "operator/watches.h"

#include <fmt/format.h>

#include "lib/base/check.h"
#include "operator/image/conversion_job.h"
#include "operator/image/profile_reconciler.h"
#include "operator/node_plan/reconciler.h"
#include "operator/resources.h"
#include "operator/straggler/straggler_names.h"
#include "operator/training_run/reconciler.h"

namespace paceline::operator_ {
namespace {

constexpr Duration kSyncLogPeriod = std::chrono::seconds(15);
constexpr Duration kDiscoverTimeout = std::chrono::seconds(10);

kube::ReflectorOptions Options(const kube::Resource& resource) {
  kube::ReflectorOptions options;
  options.resource = resource;
  return options;
}

kube::ReflectorOptions JsonOptions(const kube::Resource& resource) {
  kube::ReflectorOptions options = Options(resource);
  options.preferred_encoding = kube::Encoding::kJson;
  return options;
}

kube::ReflectorOptions Selecting(kube::ReflectorOptions options, std::string_view label, std::string_view value) {
  options.label_selector = fmt::format("{}={}", label, value);
  return options;
}

kube::ReflectorOptions PodEvents() {
  kube::ReflectorOptions options = Options(kube::kCoreEvents);
  options.field_selector = "involvedObject.kind=Pod";
  return options;
}

bool IsTrainingJob(const api::JobKind& kind) { return kind.group == api::kGroup; }

}  // namespace

Watches::Watches(kube::CacheEnvironment environment)
    : env_(environment),
      reports_(env_.clock),
      observed_(env_.clock),
      child_jobs_(Selecting(Options(kube::kJobs), api::kJobKindLabel, api::kTrainingJobKind.kind), env_,
                  {kube::LabelIndex<kube::JobView>(std::string(api::kJobUidLabel))}),
      services_(Selecting(JsonOptions(kube::kServices), kManagedByLabel, kManagedByValue), env_,
                {kube::LabelIndex<kube::ObjectView>(std::string(api::kJobUidLabel))}),
      pods_(Options(kube::kPods), env_, PodIndexes()),
      events_(PodEvents(), env_, {EventPodIndex()}),
      runs_(JsonOptions(kTrainingRuns), env_, {kube::OwnerIndex<kube::ObjectView>()}),
      nodes_(Options(kube::kNodes), env_),
      plans_(JsonOptions(kNodePlans), env_),
      incidents_(JsonOptions(kIncidents), env_, {kube::LabelIndex<kube::ObjectView>(std::string(api::kRunLabel))}),
      policies_(JsonOptions(kStragglerPolicies), env_),
      profiles_(JsonOptions(kImageProfiles), env_, {ProfileManifestIndex()}),
      conversions_(Selecting(Options(kube::kJobs), kConversionLabel, "true"), env_),
      snapshots_(JsonOptions(kDependencySnapshots), env_) {
  AddHandlers();
}

Watches::~Watches() { Stop(); }

void Watches::AddHandlers() {
  child_jobs_.AddHandler([this](const auto& change) { WakeOwner(change.meta()); });
  services_.AddHandler([this](const auto& change) { WakeOwner(change.meta()); });
  pods_.AddHandler([this](const auto& change) { OnPod(change); });
  events_.AddHandler([this](const kube::CacheChange<kube::EventView>& change) {
    if (change.after == nullptr || queues_.load() == nullptr) return;
    const auto& object = change.after->involved_object;
    const auto pod = pods_.store().Get(object.ns, object.name);
    if (pod != nullptr && pod->meta.uid == object.uid) WakeJobsOf(*pod, kube::Priority::kNormal);
  });
  runs_.AddHandler([this](const auto& change) { OnRun(change); });
  nodes_.AddHandler([this](const auto& change) { OnNode(change); });
  plans_.AddHandler([this](const auto& change) { OnPlan(change); });
  incidents_.AddHandler([this](const auto& change) {
    const Queues* queues = queues_.load();
    const kube::ObjectMeta& meta = change.meta();
    const std::string_view run = meta.labels.Get(api::kRunLabel);
    if (queues != nullptr && !run.empty()) queues->incidents.Add({meta.ns.str(), std::string(run)});
    WakePolicyOf(meta, kube::Priority::kNormal);  // a person may have approved
  });
  policies_.AddHandler([this](const auto& change) {
    const Queues* queues = queues_.load();
    if (queues != nullptr) queues->stragglers.Add(change.meta().Key());
  });
  profiles_.AddHandler([this](const auto& change) {
    const Queues* queues = queues_.load();
    if (queues != nullptr && change.after != nullptr) queues->image_profiles.Add(change.meta().Key());
  });
  conversions_.AddHandler([this](const auto& change) {
    const Queues* queues = queues_.load();
    const kube::OwnerReference* owner = change.meta().Controller();
    if (queues != nullptr && owner != nullptr) queues->image_profiles.Add({"", owner->name.str()});
  });
  snapshots_.AddHandler([this](const auto& change) {
    const Queues* queues = queues_.load();
    if (queues != nullptr) queues->snapshots.Add(change.meta().Key());  // one removed by hand comes back
  });
}

void Watches::WakePolicyOf(const kube::ObjectMeta& incident, kube::Priority priority) {
  const Queues* queues = queues_.load();
  const std::string_view policy = incident.annotations.Get(kPolicyOfIncident);
  if (queues != nullptr && !policy.empty()) queues->stragglers.Add({"", std::string(policy)}, priority);
}

void Watches::OnNode(const kube::CacheChange<kube::NodeView>& change) {
  const Queues* queues = queues_.load();
  if (queues == nullptr) return;
  if (change.before == nullptr) queues->node_plans.Add(change.meta().Key());
  // Somebody has cordoned it, or put it back.
  const bool has_changed =
      change.before != nullptr && change.after != nullptr && change.before->spec != change.after->spec;
  if (!has_changed) return;
  for (const auto& policy : policies_.store().List()) queues->stragglers.Add(policy->meta.Key());
}

void Watches::OnPlan(const kube::CacheChange<kube::ObjectView>& change) {
  const NodeReports::News news = reports_.See(change);
  const Queues* queues = queues_.load();
  if (queues == nullptr) return;
  if (change.after == nullptr) queues->node_plans.Add(change.meta().Key());
  for (const kube::ObjectKey& key : news.pods) {
    if (const auto pod = pods_.store().Get(key)) WakeJobsOf(*pod, kube::Priority::kNormal);
  }
  for (const kube::ObjectKey& run : news.runs) queues->incidents.Add(run);
  for (const kube::ObjectKey& snapshot : news.snapshots) queues->snapshots.Add(snapshot);
  if (news.has_images) WakeForImagesOf(change.meta().name);
  if (news.has_probe) {
    for (const auto& policy : policies_.store().List()) queues->stragglers.Add(policy->meta.Key());
  }
  if (news.has_peer_address) {
    for (const auto& pod : pods_.store().ListBy("node", change.meta().name.view())) WakePeersOf(*pod);
  }
}

void Watches::WakeForImagesOf(std::string_view node) {
  for (const auto& pod : pods_.store().ListBy("node", node)) WakeJobsOf(*pod, kube::Priority::kNormal);
  const Queues* queues = queues_.load();
  const auto images = reports_.ImagesOf(node);
  if (queues == nullptr || images == nullptr) return;
  for (const api::ImageReport& image : *images) {
    for (const auto& profile : profiles_.store().ListBy(kProfileManifestIndex, image.manifest)) {
      queues->image_profiles.Add(profile->meta.Key(), kube::Priority::kLow);
    }
  }
}

void Watches::WakeJob(const JobKey& key, kube::Priority priority) {
  const Queues* queues = queues_.load();
  if (queues == nullptr) return;
  if (IsTrainingJob(*key.kind)) queues->training_jobs.Add({key.ns, key.name}, priority);
  queues->training_runs.Add(key.ToObjectKey(), priority);
  queues->image_requests.Add(key.ToObjectKey(), priority);
}

void Watches::WakeOwner(const kube::ObjectMeta& meta) {
  const kube::OwnerReference* owner = meta.Controller();
  if (owner == nullptr) return;
  const api::JobKind* kind = api::FindJobKind(owner->api_version, owner->kind);
  if (kind != nullptr) WakeJob({kind, meta.ns.str(), owner->name.str()}, kube::Priority::kNormal);
}

void Watches::WakePlansOf(const api::JobKind& kind, const kube::ObjectView& job, Duration delay) {
  const Queues* queues = queues_.load();
  if (queues == nullptr) return;
  std::vector<kube::SharedString> selectors;
  PodSelectorIndex(kind).keys(job, &selectors);
  for (const kube::SharedString& selector : selectors) {
    const std::string_view value = selector.view().substr(selector.view().find('=') + 1);
    for (const auto& pod : pods_.store().ListBy(kind.pod_label, value)) {
      const bool is_there = pod->meta.ns == job.meta.ns && !pod->spec.node_name.empty() && !IsFinished(*pod);
      if (is_there) queues->node_plans.AddAfter({"", pod->spec.node_name.str()}, delay);
    }
  }
}

void Watches::WakePeersOf(const kube::PodView& pod) {
  for (const JobKey& key : catalog_.JobsOf(pod)) {
    const JobObject job = catalog_.Find(key);
    if (job != nullptr) WakePlansOf(*key.kind, *job, kPeersDelay);
  }
}

void Watches::OnRun(const kube::CacheChange<kube::ObjectView>& change) {
  const Queues* queues = queues_.load();
  // The end of a run is the end of its incidents.
  if (queues != nullptr && !incidents_.store().ListBy(api::kRunLabel, change.meta().name).empty()) {
    queues->incidents.Add(change.meta().Key());
  }
  if (queues != nullptr && (change.before == nullptr || change.after == nullptr)) {
    queues->slowdowns.Add(change.meta().Key());  // from then on it looks again by itself, until the run is over
  }
  if (change.after == nullptr) WakeOwner(change.meta());  // a run deleted by hand comes back
  const kube::OwnerReference* owner = change.meta().Controller();
  if (owner == nullptr || change.before != nullptr) return;
  // Pods without the run's label belong to the newest run of their job, and this is it now.
  const api::JobKind* kind = api::FindJobKind(owner->api_version, owner->kind);
  if (kind == nullptr) return;
  const JobObject job = catalog_.Find({kind, change.meta().ns.str(), owner->name.str()});
  if (job != nullptr) WakePlansOf(*kind, *job);
}

void Watches::OnJob(const api::JobKind& kind, const kube::CacheChange<kube::ObjectView>& change) {
  const kube::ObjectMeta& meta = change.meta();
  const bool is_ours = IsTrainingJob(kind) || MayBeEnabled(meta);
  if (is_ours) observed_.SeeJob(change);
  // A job that is enabled by its pod template alone is woken up by its pods; when its own status changes, its runs are.
  if (is_ours || !runs_.store().ListBy(kRunOwnerIndex, meta.uid).empty()) {
    WakeJob({&kind, meta.ns.str(), meta.name.str()}, kube::Priority::kNormal);
  }
  // Whether it is traced may have changed.
  const bool may_differ =
      change.before != nullptr && change.after != nullptr &&
      (change.before->meta.generation != meta.generation ||
       change.before->meta.annotations.Get(api::kTraceAnnotation) != meta.annotations.Get(api::kTraceAnnotation));
  if (is_ours && may_differ) WakePlansOf(kind, *change.after);
}

void Watches::WakeJobsOf(const kube::PodView& pod, kube::Priority priority) {
  for (const JobKey& key : catalog_.JobsOf(pod)) {
    const JobObject job = IsTrainingJob(*key.kind) ? nullptr : catalog_.Find(key);
    if (IsTrainingJob(*key.kind) || MayBeEnabled(pod.meta) || (job != nullptr && MayBeEnabled(job->meta)))
      WakeJob(key, priority);
  }
}

void Watches::OnPod(const kube::CacheChange<kube::PodView>& change) {
  observed_.SeePod(change);
  const Queues* queues = queues_.load();
  if (queues == nullptr) return;
  const kube::PodView& pod = change.after != nullptr ? *change.after : *change.before;
  WakeJobsOf(pod, kube::Priority::kNormal);
  const bool came = change.after != nullptr && (change.before == nullptr || change.before->spec.node_name.empty());
  const bool went = change.after == nullptr || IsFinished(*change.after);
  // When a pod goes, its job may have gone before it: then its label must do, or the plan would name the job for ever.
  const bool matters = went ? catalog_.MayBeOfJob(pod) : came && !catalog_.JobsOf(pod).empty();
  if (matters && !pod.spec.node_name.empty()) {
    queues->node_plans.Add({"", pod.spec.node_name.str()});
    if (reports_.HasPeers()) WakePeersOf(pod);
  }
}

Result<bool> Watches::TryKind(const api::JobKind& kind, Deadline deadline) {
  for (const std::string_view version : kind.versions) {
    const kube::Resource resource{std::string(kind.group), std::string(version), std::string(kind.plural),
                                  std::string(kind.kind), true};
    ASSIGN_OR_RETURN(const bool is_served, IsServed(env_.transport, resource, deadline));
    if (!is_served) continue;
    auto cache = std::make_unique<kube::ObjectCache>(
        JsonOptions(resource), env_,
        std::vector<kube::CacheIndex<kube::ObjectView>>{PodSelectorIndex(kind), kube::OwnerIndex<kube::ObjectView>()});
    cache->AddHandler([this, &kind](const auto& change) { OnJob(kind, change); });
    kube::ObjectCache& started = *cache;
    {
      MutexLock lock(mutex_);
      if (is_stopped_) return CancelledError("the watches are being stopped");
      job_caches_.emplace_back(&kind, std::move(cache));
    }
    catalog_.Add(kind, resource, started.store());
    started.Start();
    env_.log.Info("job kind found", {{"kind", kind.kind}, {"group", kind.group}, {"version", version}});
    return true;
  }
  return false;
}

Status Watches::Discover(Deadline deadline) {
  Status first;
  for (const api::JobKind& kind : api::JobKinds()) {
    if (catalog_.Has(kind)) continue;
    const Result<bool> found = TryKind(kind, deadline);
    if (found.ok()) continue;
    if (first.ok()) first = found.status();
    if (found.status().code() == StatusCode::kPermissionDenied && forbidden_.insert(&kind).second) {
      env_.log.Warn("job kind may not be read, skipped",
                    {{"kind", kind.kind}, {"group", kind.group}, {"error", found.status()}});
    }
  }
  return first;
}

Status Watches::Start(std::stop_token stop) {
  child_jobs_.Start();
  services_.Start();
  pods_.Start();
  events_.Start();
  runs_.Start();
  nodes_.Start();
  plans_.Start();
  incidents_.Start();
  // Nothing waits for these: there may be no such CRD yet after an upgrade.
  policies_.Start();
  profiles_.Start();
  conversions_.Start();
  snapshots_.Start();
  const api::JobKind& training_job = api::JobKinds().front();
  while (!stop.stop_requested()) {
    const Status discovered = Discover(Deadline::After(env_.clock, kDiscoverTimeout));
    const bool may_go_on = discovered.ok() || discovered.code() == StatusCode::kPermissionDenied;
    if (may_go_on && catalog_.Has(training_job)) break;
    env_.log.Warn("job kinds not known yet, retrying",
                  {{"error", discovered.ok() ? NotFoundError("the CRD of TrainingJob is not installed") : discovered}});
    if (!env_.clock.SleepFor(std::chrono::seconds(2), stop)) break;
  }
  const auto wait = [&](const auto& cache) -> Status {
    while (true) {
      const Status synced = cache.WaitForSync(Deadline::After(env_.clock, kSyncLogPeriod), stop);
      if (synced.code() != StatusCode::kDeadlineExceeded) return synced;
      env_.log.Warn("first list not complete yet, waiting", {{"error", synced}});
    }
  };
  RETURN_IF_ERROR(wait(child_jobs_));
  RETURN_IF_ERROR(wait(services_));
  RETURN_IF_ERROR(wait(pods_));
  RETURN_IF_ERROR(wait(events_));
  RETURN_IF_ERROR(wait(runs_));
  RETURN_IF_ERROR(wait(nodes_));
  RETURN_IF_ERROR(wait(plans_));
  RETURN_IF_ERROR(wait(incidents_));
  for (const kube::ObjectCache* cache : JobCaches()) RETURN_IF_ERROR(wait(*cache));
  return stop.stop_requested() ? CancelledError("asked to stop") : Status();
}

void Watches::Stop() {
  queues_.store(nullptr);
  std::vector<kube::ObjectCache*> caches;
  {
    MutexLock lock(mutex_);
    is_stopped_ = true;
    for (auto& [kind, cache] : job_caches_) caches.push_back(cache.get());
  }
  for (kube::ObjectCache* cache : caches) cache->Stop();
  snapshots_.Stop();
  conversions_.Stop();
  profiles_.Stop();
  policies_.Stop();
  incidents_.Stop();
  plans_.Stop();
  nodes_.Stop();
  runs_.Stop();
  events_.Stop();
  pods_.Stop();
  services_.Stop();
  child_jobs_.Stop();
}

std::vector<const kube::ObjectCache*> Watches::JobCaches() const {
  MutexLock lock(mutex_);
  std::vector<const kube::ObjectCache*> caches;
  for (const auto& [kind, cache] : job_caches_) caches.push_back(cache.get());
  return caches;
}

const kube::Store<kube::ObjectView>& Watches::training_jobs() const {
  const JobStore* store = catalog_.StoreOf(api::kGroup, api::kTrainingJobKind.kind);
  CHECK(store != nullptr);
  return *store;
}

bool Watches::HasSynced() const {
  if (!catalog_.Has(api::JobKinds().front())) return false;
  for (const kube::ObjectCache* cache : JobCaches()) {
    if (!cache->HasSynced()) return false;
  }
  return child_jobs_.HasSynced() && services_.HasSynced() && pods_.HasSynced() && events_.HasSynced() &&
         runs_.HasSynced() && nodes_.HasSynced() && plans_.HasSynced() && incidents_.HasSynced();
}

void Watches::Feed(const Queues& queues) {
  CHECK(owned_queues_ == nullptr);
  owned_queues_ = std::make_unique<Queues>(queues);
  queues_.store(owned_queues_.get());
  Resync();
}

void Watches::Resync() {
  const Queues* queues = queues_.load();
  if (queues == nullptr) return;
  std::vector<std::pair<const api::JobKind*, const kube::ObjectCache*>> caches;
  {
    MutexLock lock(mutex_);
    for (const auto& [kind, cache] : job_caches_) caches.emplace_back(kind, cache.get());
  }
  for (const auto& [kind, cache] : caches) {
    for (const JobObject& job : cache->store().List()) {
      if (IsTrainingJob(*kind) || MayBeEnabled(job->meta))
        WakeJob({kind, job->meta.ns.str(), job->meta.name.str()}, kube::Priority::kLow);
    }
  }
  for (const auto& pod : pods_.store().List()) {
    if (MayBeEnabled(pod->meta)) WakeJobsOf(*pod, kube::Priority::kLow);
  }
  for (const auto& node : nodes_.store().List()) queues->node_plans.Add(node->meta.Key(), kube::Priority::kLow);
  for (const kube::ObjectKey& run : reports_.AlarmedRuns()) queues->incidents.Add(run);
  for (const kube::ObjectKey& key : reports_.ReportedSnapshots()) queues->snapshots.Add(key, kube::Priority::kLow);
  for (const auto& snapshot : snapshots_.store().List()) {
    queues->snapshots.Add(snapshot->meta.Key(), kube::Priority::kLow);
  }
  for (const auto& run : runs_.store().List()) queues->slowdowns.Add(run->meta.Key(), kube::Priority::kLow);
  for (const auto& policy : policies_.store().List()) {
    queues->stragglers.Add(policy->meta.Key(), kube::Priority::kLow);
  }
  for (const auto& profile : profiles_.store().List()) {
    queues->image_profiles.Add(profile->meta.Key(), kube::Priority::kLow);
  }
  for (const auto& incident : incidents_.store().List()) {
    queues->incidents.Add({incident->meta.ns.str(), std::string(incident->meta.labels.Get(api::kRunLabel))},
                          kube::Priority::kLow);
    WakePolicyOf(incident->meta, kube::Priority::kLow);  // which may be gone
  }
}

}  // namespace paceline::operator_
