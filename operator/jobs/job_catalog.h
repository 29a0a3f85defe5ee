// The training jobs of the cluster, whatever their kind: one cache for each row of the job-kind table whose kind the
// API server serves, and the way from a pod to its job. Kinds whose CRD comes later are found by the next Discover.
//
// Pods are matched by the label that the kind's own controller puts on them, so nothing here asks the server.
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/api/job_kinds.h"
#include "lib/base/mutex.h"
#include "lib/kube/cache.h"
#include "lib/net/http.h"

namespace paceline::operator_ {

// One job of any kind.
struct JobKey {
  const api::JobKind* kind = nullptr;  // a row of the table
  std::string ns;
  std::string name;

  // For work queues and logs: name "JobSet.jobset.x-k8s.io/llama".
  kube::ObjectKey ToObjectKey() const;
  static std::optional<JobKey> FromObjectKey(const kube::ObjectKey& key);
};

using JobObject = std::shared_ptr<const kube::ObjectView>;
using JobStore = kube::Store<kube::ObjectView>;

// The index of a job store that every store given to the catalog must have: under "<label>=<value>" of its pods.
kube::CacheIndex<kube::ObjectView> PodSelectorIndex(const api::JobKind& kind);
inline constexpr std::string_view kPodSelectorIndexName = "pods";

// True when the API server serves the resource. kPermissionDenied when we may not list it, kUnavailable and the like
// when the server cannot say.
Result<bool> IsServed(net::HttpTransport& transport, const kube::Resource& resource, Deadline deadline);

class JobCatalog {
 public:
  JobCatalog() = default;
  JobCatalog(const JobCatalog&) = delete;
  JobCatalog& operator=(const JobCatalog&) = delete;

  // Makes the kind known. `store` must outlive the catalog. At most once for each kind.
  void Add(const api::JobKind& kind, const kube::Resource& resource, const JobStore& store) EXCLUDES(mutex_);
  bool Has(const api::JobKind& kind) const EXCLUDES(mutex_);
  // For owner walks: the resource of a kind that is known and served.
  std::optional<kube::Resource> ResourceOf(std::string_view group, std::string_view kind) const EXCLUDES(mutex_);
  const JobStore* StoreOf(std::string_view group, std::string_view kind) const EXCLUDES(mutex_);

  // Null when it is not there.
  JobObject Find(const JobKey& key) const EXCLUDES(mutex_);
  // The whole job, with apiVersion and kind: the items of a list of a built-in kind come without them.
  Result<nlohmann::json> Body(const api::JobKind& kind, const kube::ObjectView& job) const EXCLUDES(mutex_);
  // The jobs whose pod this is: top objects only (a JobSet, not its Jobs). Usually none or one.
  std::vector<JobKey> JobsOf(const kube::PodView& pod) const EXCLUDES(mutex_);
  // True when the pod has the label of a known kind's pods, whether or not its job is still there.
  bool MayBeOfJob(const kube::PodView& pod) const EXCLUDES(mutex_);
  // True when no other known job owns it.
  bool IsTop(const kube::ObjectMeta& job) const EXCLUDES(mutex_);

 private:
  struct Entry {
    const api::JobKind* kind;
    kube::Resource resource;
    const JobStore* store;
  };
  std::vector<Entry> Entries() const EXCLUDES(mutex_);
  static bool IsTopAmong(const std::vector<Entry>& entries, const kube::ObjectMeta& job);

  mutable Mutex mutex_;
  std::vector<Entry> entries_ GUARDED_BY(mutex_);
};

// All pods of the job, from `pods`, which needs PodIndexes. Empty while the job does not say which are its own.
std::vector<std::shared_ptr<const kube::PodView>> PodsOf(const JobCatalog& catalog,
                                                         const kube::Store<kube::PodView>& pods, const JobKey& key,
                                                         const nlohmann::json& job);

}  // namespace paceline::operator_
