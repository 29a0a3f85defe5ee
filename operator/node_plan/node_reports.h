// What the agents say in NodePlan.status, decoded once for each change: which nodes have a live agent, and what stages
// the pods on them have reached. Fed by the NodePlan cache's handler on every replica; read by the run reconciler and
// the webhook. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/api/node_plan.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/kube/cache.h"
#include "operator/training_run/worker_facts.h"

namespace paceline::operator_ {

// What one agent says of the traces of one run.
struct TraceReport {
  int64_t processes = 0;
  std::vector<api::TraceAlert> alerts;
};

// What one agent says of the dependencies of one pod.
struct DependencyReport {
  std::string node;
  kube::ObjectKey pod;
  std::string pod_uid;
  api::PodDependencies dependencies;
};

// How a node stands with probes: what it was asked for and what it has found.
struct ProbeReport {
  int64_t asked = 0;       // the round that the plan asks for
  bool has_jobs = false;   // the plan names a job with pods there
  bool is_heard = false;   // the agent says anything of probes: older ones do not
  api::ProbeStatus found;  // round 0: nothing yet
};

class NodeReports {
 public:
  // `clock` must outlive the object.
  explicit NodeReports(const Clock& clock) : clock_(clock) {}

  // What is new in a status. One that cannot be read counts as no report.
  struct News {
    std::vector<kube::ObjectKey> pods;       // whose stages or mounts are new or different
    std::vector<kube::ObjectKey> runs;       // whose traces are
    std::vector<kube::ObjectKey> snapshots;  // DependencySnapshots of which something else is said
    bool has_images = false;                 // what the node says of its images is
    bool has_probe = false;                  // it has done a probe
    bool has_peer_address = false;           // where it gives chunks to others is
  };
  News See(const kube::CacheChange<kube::ObjectView>& change) EXCLUDES(mutex_);

  // How long ago the agent of `node` was heard of, by our clock; empty when it never was. Clocks of nodes are not
  // compared with ours, except for the first report after our start.
  std::optional<Duration> Silence(std::string_view node) const EXCLUDES(mutex_);

  // What is reported of one pod; empty when nothing is.
  std::vector<Marker> MarkersOf(std::string_view node, std::string_view pod_uid) const EXCLUDES(mutex_);
  std::vector<api::PodMount> MountsOf(std::string_view node, std::string_view pod_uid) const EXCLUDES(mutex_);
  std::optional<api::PodDependencies> DependenciesOf(std::string_view node, std::string_view pod_uid) const
      EXCLUDES(mutex_);

  // What is reported of one DependencySnapshot by all nodes, and of which there are reports.
  std::vector<DependencyReport> ReportsOf(const kube::ObjectKey& snapshot) const EXCLUDES(mutex_);
  std::vector<kube::ObjectKey> ReportedSnapshots() const EXCLUDES(mutex_);

  // What the node's snapshotter says of images; null when it says nothing.
  std::shared_ptr<const std::vector<api::ImageReport>> ImagesOf(std::string_view node) const EXCLUDES(mutex_);
  // What all nodes say of the image with this manifest.
  std::vector<api::ImageReport> ReportsOfManifest(std::string_view manifest) const EXCLUDES(mutex_);

  // What the agents say of the traces of a run, by node.
  std::map<std::string, TraceReport> TracesOf(const kube::ObjectKey& run) const EXCLUDES(mutex_);
  // host:port of the agent of `node`; empty when it is not known.
  std::string AddressOf(std::string_view node) const EXCLUDES(mutex_);
  // What is known of the node's probes; null when it has no plan.
  std::shared_ptr<const ProbeReport> ProbeOf(std::string_view node) const EXCLUDES(mutex_);
  // host:port where `node` gives chunks to others; empty when it gives none.
  std::string PeerAddressOf(std::string_view node) const EXCLUDES(mutex_);
  // Whether any node does.
  bool HasPeers() const EXCLUDES(mutex_);
  // Runs with alerts on any node.
  std::vector<kube::ObjectKey> AlarmedRuns() const EXCLUDES(mutex_);

 private:
  struct Pod {
    kube::ObjectKey key;
    std::vector<Marker> markers;
    std::vector<api::PodMount> mounts;
    std::optional<api::PodDependencies> dependencies;
  };
  using Pods = std::map<std::string, Pod, std::less<>>;  // by uid
  static bool IsSame(const Pod& a, const Pod& b);
  std::optional<Pod> Find(std::string_view node, std::string_view pod_uid) const EXCLUDES(mutex_);

  struct Node {
    std::optional<WallTime> heartbeat;  // as the agent wrote it
    WallTime heard;                     // when it changed, by our clock
    Pods pods;
    std::string address;
    std::string peer_address;
    std::shared_ptr<const std::vector<api::ImageReport>> images;
    std::map<kube::ObjectKey, TraceReport> traces;  // by run
    std::shared_ptr<const ProbeReport> probe;
  };
  static std::optional<kube::ObjectKey> SnapshotOf(const Pod& pod);
  static void CompareSnapshots(const Pods& before, const Pods& after, std::vector<kube::ObjectKey>* changed);
  static void CompareTraces(const std::map<kube::ObjectKey, TraceReport>& before,
                            const std::map<kube::ObjectKey, TraceReport>& after, std::vector<kube::ObjectKey>* changed);

  const Clock& clock_;
  mutable Mutex mutex_;
  std::map<std::string, Node, std::less<>> nodes_ GUARDED_BY(mutex_);
};

}  // namespace paceline::operator_
