#include "operator/jobs/job_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/check.h"
#include "lib/kube/errors.h"

namespace paceline::operator_ {
namespace {

std::string_view GroupOf(std::string_view api_version) {
  const size_t slash = api_version.find('/');
  return slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
}

}  // namespace

kube::ObjectKey JobKey::ToObjectKey() const { return {ns, fmt::format("{}.{}/{}", kind->kind, kind->group, name)}; }

std::optional<JobKey> JobKey::FromObjectKey(const kube::ObjectKey& key) {
  const size_t slash = key.name.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const std::string_view kind = std::string_view(key.name).substr(0, slash);
  for (const api::JobKind& row : api::JobKinds()) {
    if (kind == fmt::format("{}.{}", row.kind, row.group)) return JobKey{&row, key.ns, key.name.substr(slash + 1)};
  }
  return std::nullopt;
}

kube::CacheIndex<kube::ObjectView> PodSelectorIndex(const api::JobKind& kind) {
  return {std::string(kPodSelectorIndexName),
          [&kind](const kube::ObjectView& job, std::vector<kube::SharedString>* keys) {
            // Most kinds name their pods after metadata, which is decoded already.
            if (kind.pod_label_value == "/metadata/uid") {
              keys->emplace_back(fmt::format("{}={}", kind.pod_label, job.meta.uid.view()));
            } else if (kind.pod_label_value == "/metadata/name") {
              keys->emplace_back(fmt::format("{}={}", kind.pod_label, job.meta.name.view()));
            } else if (const auto body = job.Body(); body.ok()) {
              const Result<std::string> selector = api::PodSelector(*body);
              if (selector.ok()) keys->emplace_back(*selector);
            }
          }};
}

Result<bool> IsServed(net::HttpTransport& transport, const kube::Resource& resource, Deadline deadline) {
  net::HttpRequest request;
  request.target = fmt::format("/{}/{}?limit=1",
                               resource.group.empty() ? "api/" + resource.version : "apis/" + resource.ApiVersion(),
                               resource.plural);
  request.headers["Accept"] = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
  ASSIGN_OR_RETURN(const net::HttpResponse response, transport.Send(request, deadline));
  if (response.status == 404) return false;
  RETURN_IF_ERROR(kube::ToStatus(response, "list " + resource.Display()));
  return true;
}

void JobCatalog::Add(const api::JobKind& kind, const kube::Resource& resource, const JobStore& store) {
  MutexLock lock(mutex_);
  for (const Entry& entry : entries_) CHECK(entry.kind != &kind);
  entries_.push_back({&kind, resource, &store});
}

bool JobCatalog::Has(const api::JobKind& kind) const {
  MutexLock lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.kind == &kind; });
}

std::vector<JobCatalog::Entry> JobCatalog::Entries() const {
  MutexLock lock(mutex_);
  return entries_;
}

std::optional<kube::Resource> JobCatalog::ResourceOf(std::string_view group, std::string_view kind) const {
  for (const Entry& entry : Entries()) {
    if (entry.kind->group == group && entry.kind->kind == kind) return entry.resource;
  }
  return std::nullopt;
}

const JobStore* JobCatalog::StoreOf(std::string_view group, std::string_view kind) const {
  for (const Entry& entry : Entries()) {
    if (entry.kind->group == group && entry.kind->kind == kind) return entry.store;
  }
  return nullptr;
}

JobObject JobCatalog::Find(const JobKey& key) const {
  for (const Entry& entry : Entries()) {
    if (entry.kind == key.kind) return entry.store->Get(key.ns, key.name);
  }
  return nullptr;
}

Result<nlohmann::json> JobCatalog::Body(const api::JobKind& kind, const kube::ObjectView& job) const {
  ASSIGN_OR_RETURN(nlohmann::json body, job.Body());
  const auto resource = ResourceOf(kind.group, kind.kind);
  if (!resource) return NotFoundError(fmt::format("{} is not watched", kind.kind));
  body["apiVersion"] = resource->ApiVersion();
  body["kind"] = resource->kind;
  return body;
}

bool JobCatalog::IsTopAmong(const std::vector<Entry>& entries, const kube::ObjectMeta& job) {
  const kube::OwnerReference* owner = job.Controller();
  if (owner == nullptr) return true;
  return std::none_of(entries.begin(), entries.end(), [&](const Entry& entry) {
    return owner->kind == entry.kind->kind && GroupOf(owner->api_version) == entry.kind->group;
  });
}

bool JobCatalog::IsTop(const kube::ObjectMeta& job) const { return IsTopAmong(Entries(), job); }

bool JobCatalog::MayBeOfJob(const kube::PodView& pod) const {
  const std::vector<Entry> entries = Entries();
  return std::any_of(entries.begin(), entries.end(),
                     [&](const Entry& entry) { return pod.meta.labels.Contains(entry.kind->pod_label); });
}

std::vector<JobKey> JobCatalog::JobsOf(const kube::PodView& pod) const {
  std::vector<JobKey> jobs;
  const std::vector<Entry> entries = Entries();
  const kube::OwnerReference* owner = pod.meta.Controller();
  for (const Entry& entry : entries) {
    const kube::SharedString* value = pod.meta.labels.Find(entry.kind->pod_label);
    if (value == nullptr) continue;
    for (const JobObject& job :
         entry.store->ListBy(kPodSelectorIndexName, fmt::format("{}={}", entry.kind->pod_label, value->view()))) {
      if (job->meta.ns != pod.meta.ns || !IsTopAmong(entries, job->meta)) continue;
      // Two kinds may use the same label and value: the owner's kind, where it is one of the table, tells them apart.
      const api::JobKind* owner_kind = owner == nullptr ? nullptr : api::FindJobKind(owner->api_version, owner->kind);
      const bool owns_directly = owner != nullptr && owner->uid == job->meta.uid;
      const bool is_direct_kind = owner_kind == entry.kind;
      if (is_direct_kind && !owns_directly) continue;
      if (!is_direct_kind && owner_kind != nullptr &&
          !api::IsIntermediateOwner(owner->api_version.str(), owner->kind.str()))
        continue;
      jobs.push_back({entry.kind, job->meta.ns.str(), job->meta.name.str()});
    }
  }
  return jobs;
}

std::vector<std::shared_ptr<const kube::PodView>> PodsOf(const JobCatalog& catalog,
                                                         const kube::Store<kube::PodView>& pods, const JobKey& key,
                                                         const nlohmann::json& job) {
  const Result<std::string> selector = api::PodSelector(job);
  if (!selector.ok()) return {};  // not known yet: the job will change
  const size_t equals = selector->find('=');
  std::vector<std::shared_ptr<const kube::PodView>> found;
  for (auto& pod : pods.ListBy(selector->substr(0, equals), selector->substr(equals + 1))) {
    if (pod->meta.ns.view() != key.ns) continue;
    const std::vector<JobKey> jobs = catalog.JobsOf(*pod);
    const bool is_ours = std::any_of(jobs.begin(), jobs.end(), [&](const JobKey& owner) {
      return owner.kind == key.kind && owner.name == key.name;
    });
    if (is_ours) found.push_back(std::move(pod));
  }
  return found;
}

}  // namespace paceline::operator_
