// What the agents say in NodePlan.status, decoded once for each change: which nodes have a live agent, and what stages
// the pods on them have reached. Fed by the NodePlan cache's handler on every replica; read by the run reconciler and
// the webhook. Thread-safe.
#pragma once

#include <map>
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

class NodeReports {
 public:
  // `clock` must outlive the object.
  explicit NodeReports(const Clock& clock) : clock_(clock) {}

  // What is new in a status. One that cannot be read counts as no report.
  struct News {
    std::vector<kube::ObjectKey> pods;  // whose stages or mounts are new or different
    std::vector<kube::ObjectKey> runs;  // whose traces are
  };
  News See(const kube::CacheChange<kube::ObjectView>& change) EXCLUDES(mutex_);

  // How long ago the agent of `node` was heard of, by our clock; empty when it never was. Clocks of nodes are not
  // compared with ours, except for the first report after our start.
  std::optional<Duration> Silence(std::string_view node) const EXCLUDES(mutex_);

  // What is reported of one pod; empty when nothing is.
  std::vector<Marker> MarkersOf(std::string_view node, std::string_view pod_uid) const EXCLUDES(mutex_);
  std::vector<api::PodMount> MountsOf(std::string_view node, std::string_view pod_uid) const EXCLUDES(mutex_);

  // What the agents say of the traces of a run, by node.
  std::map<std::string, TraceReport> TracesOf(const kube::ObjectKey& run) const EXCLUDES(mutex_);
  // host:port of the agent of `node`; empty when it is not known.
  std::string AddressOf(std::string_view node) const EXCLUDES(mutex_);
  // Runs with alerts on any node.
  std::vector<kube::ObjectKey> AlarmedRuns() const EXCLUDES(mutex_);

 private:
  struct Pod {
    std::vector<Marker> markers;
    std::vector<api::PodMount> mounts;
  };
  static bool IsSame(const Pod& a, const Pod& b);
  std::optional<Pod> Find(std::string_view node, std::string_view pod_uid) const EXCLUDES(mutex_);

  struct Node {
    std::optional<WallTime> heartbeat;             // as the agent wrote it
    WallTime heard;                                // when it changed, by our clock
    std::map<std::string, Pod, std::less<>> pods;  // by uid
    std::string address;
    std::map<kube::ObjectKey, TraceReport> traces;  // by run
  };
  static void CompareTraces(const std::map<kube::ObjectKey, TraceReport>& before,
                            const std::map<kube::ObjectKey, TraceReport>& after, std::vector<kube::ObjectKey>* changed);

  const Clock& clock_;
  mutable Mutex mutex_;
  std::map<std::string, Node, std::less<>> nodes_ GUARDED_BY(mutex_);
};

}  // namespace paceline::operator_
