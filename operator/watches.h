// All that the operator mirrors of the cluster, and which key of which controller each change wakes up. Every replica
// watches, so that a new leader starts with full caches and the webhook can be served everywhere; only the leader's
// queues are fed.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/kube/cache.h"
#include "lib/kube/work_queue.h"
#include "operator/jobs/job_catalog.h"
#include "operator/node_plan/node_reports.h"
#include "operator/training_run/observed_times.h"

namespace paceline::operator_ {

// The queues of the controllers.
struct Queues {
  kube::WorkQueue& training_jobs;
  kube::WorkQueue& training_runs;
  kube::WorkQueue& node_plans;
  kube::WorkQueue& incidents;
  kube::WorkQueue& slowdowns;
  kube::WorkQueue& stragglers;
  kube::WorkQueue& image_requests;
  kube::WorkQueue& image_profiles;
  kube::WorkQueue& snapshots;
};

class Watches {
 public:
  explicit Watches(kube::CacheEnvironment environment);
  ~Watches();  // Stop
  Watches(const Watches&) = delete;
  Watches& operator=(const Watches&) = delete;

  // Starts the watches of built-in kinds, of our own, and of those job kinds that the server has. Blocks until all have
  // their first list, `stop` (kCancelled), or for ever while the server is away: the log says why.
  Status Start(std::stop_token stop);
  void Stop();

  // Asks the server for job kinds that it did not have and starts to watch what has come. Blocks until `deadline`. From
  // one thread at a time. Returns the first failure, having gone on after it.
  Status Discover(Deadline deadline);

  // From now on changes are put into the queues, and all that is there already with low priority. Once.
  void Feed(const Queues& queues);
  // Puts all objects into the queues once more.
  void Resync();

  bool HasSynced() const;

  const JobCatalog& catalog() const { return catalog_; }
  const kube::Store<kube::ObjectView>& training_jobs() const;  // once Start has returned
  const kube::Store<kube::JobView>& child_jobs() const { return child_jobs_.store(); }
  const kube::Store<kube::ObjectView>& services() const { return services_.store(); }
  const kube::Store<kube::PodView>& pods() const { return pods_.store(); }
  const kube::Store<kube::EventView>& events() const { return events_.store(); }
  const kube::Store<kube::ObjectView>& runs() const { return runs_.store(); }
  const kube::Store<kube::NodeView>& nodes() const { return nodes_.store(); }
  const kube::Store<kube::ObjectView>& plans() const { return plans_.store(); }
  const kube::Store<kube::ObjectView>& incidents() const { return incidents_.store(); }
  const kube::Store<kube::ObjectView>& policies() const { return policies_.store(); }
  const kube::Store<kube::ObjectView>& profiles() const { return profiles_.store(); }
  const kube::Store<kube::JobView>& conversions() const { return conversions_.store(); }
  const kube::Store<kube::ObjectView>& snapshots() const { return snapshots_.store(); }
  const NodeReports& reports() const { return reports_; }
  const ObservedTimesTracker& observed() const { return observed_; }

 private:
  void AddHandlers();
  // Makes and starts the cache of one job kind at the first of its versions that the server has.
  Result<bool> TryKind(const api::JobKind& kind, Deadline deadline) EXCLUDES(mutex_);
  void OnJob(const api::JobKind& kind, const kube::CacheChange<kube::ObjectView>& change);
  void OnPlan(const kube::CacheChange<kube::ObjectView>& change);
  void OnRun(const kube::CacheChange<kube::ObjectView>& change);
  void OnPod(const kube::CacheChange<kube::PodView>& change);
  void OnNode(const kube::CacheChange<kube::NodeView>& change);
  void WakeJobsOf(const kube::PodView& pod, kube::Priority priority);
  void WakeJob(const JobKey& key, kube::Priority priority);
  void WakeOwner(const kube::ObjectMeta& meta);
  // What the node says of its images has changed.
  void WakeForImagesOf(std::string_view node);
  void WakePolicyOf(const kube::ObjectMeta& incident, kube::Priority priority);
  // The plans of the nodes on which the job has pods.
  void WakePlansOf(const api::JobKind& kind, const kube::ObjectView& job, Duration delay = Duration::zero());
  // Those of the other nodes of the pod's jobs, a little later: their peers may be others.
  void WakePeersOf(const kube::PodView& pod);
  std::vector<const kube::ObjectCache*> JobCaches() const EXCLUDES(mutex_);

  const kube::CacheEnvironment env_;
  JobCatalog catalog_;
  NodeReports reports_;
  ObservedTimesTracker observed_;
  std::atomic<const Queues*> queues_{nullptr};  // null: not leading
  std::unique_ptr<Queues> owned_queues_;
  std::set<const api::JobKind*> forbidden_;  // told about already; used by Discover alone

  kube::JobCache child_jobs_;
  kube::ObjectCache services_;
  kube::PodCache pods_;
  kube::EventCache events_;
  kube::ObjectCache runs_;
  kube::NodeCache nodes_;
  kube::ObjectCache plans_;
  kube::ObjectCache incidents_;
  kube::ObjectCache policies_;
  kube::ObjectCache profiles_;
  kube::JobCache conversions_;
  kube::ObjectCache snapshots_;

  mutable Mutex mutex_;
  std::vector<std::pair<const api::JobKind*, std::unique_ptr<kube::ObjectCache>>> job_caches_ GUARDED_BY(mutex_);
  bool is_stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace paceline::operator_
