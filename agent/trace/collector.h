// The trace collector: finds the rings of training processes below some folders, looks at them every 100 ms, remembers
// what is usual, and notices within 10 s when a run stands still, slows down or loses a process.
//
// NCCL says nothing while it hangs, so the tables of what is in flight are sampled, at no cost to the training process.
// The agent's main owns one and runs it on a thread of its own; the API asks it for tables and records. Rings of
// processes that have ended are removed after a while. It must not run inside a process that writes a ring there.
//
// Run, or Sample, belongs to one thread; everything else may be called by any.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/trace/run_history.h"
#include "analysis/rings/process_probe.h"
#include "lib/base/metrics.h"
#include "lib/base/mutex.h"

namespace paceline::agent {

// Where rings lie, at it or up to three folders below.
struct TraceFolder {
  std::string path;
  // Of the pod whose volume it is; empty outside Kubernetes.
  std::string ns, pod_uid;
};

// How far the processes of one pod have come in their start.
struct TracedStages {
  std::optional<WallTime> communicator_ready;  // NCCL set the first communicator up
  std::optional<WallTime> first_step;          // the first collective, send or receive ended
  bool operator==(const TracedStages&) const = default;
};

struct CollectorOptions {
  // Asked at each look for new rings. A run is called "namespace/run" in all that the collector gives, so that a pod
  // cannot write itself into a run of another namespace.
  std::function<std::vector<TraceFolder>()> folders;
  std::string node;
  std::function<void()> on_news;  // by Run, when States() or Stages() changed; may be null
  std::string proc_root = "/proc";
  std::string cgroup_root = "/sys/fs/cgroup";
  Duration period = std::chrono::milliseconds(100);
  Duration scan_period = std::chrono::seconds(1);  // for new rings
  Duration keep_ended = std::chrono::minutes(2);   // tables of a process that has ended; its file goes then too
  size_t max_rings = 1024;
  RunHistoryOptions history;
};

struct RunState {
  std::string run;
  size_t processes = 0;
  std::vector<TraceTrigger> open;  // triggers that still hold
  bool operator==(const RunState&) const = default;
};

class Collector {
 public:
  // Borrows all; `files` is where the folders and the kernel's files are looked up, but rings are opened by their path.
  Collector(CollectorOptions options, FileSystem& files, const Clock& clock, MetricsRegistry& metrics);
  ~Collector();

  // Samples until stopped.
  void Run(std::stop_token stop);
  // One look, for tests and for a single answer. Reads files; returns the triggers that are new.
  std::vector<TraceTrigger> Sample();

  // Runs that have processes here.
  std::vector<std::string> Runs() const EXCLUDES(mutex_);
  // Tables of a run as of the last sample; of all runs for "". Does not block on files.
  analysis::Tables TablesOf(const std::string& run) const EXCLUDES(mutex_);
  // kNotFound for a run without processes here. docs/formats/trace-tables.md, "Records".
  Result<Json> RecordsOf(const std::string& run, WallTime since) const EXCLUDES(mutex_);
  // Of the ranks here, windows that began at or after `since`; kNotFound as above. docs/formats/trace-tables.md,
  // "Pace".
  Result<std::vector<analysis::RankPace>> PacesOf(const std::string& run, WallTime since) const EXCLUDES(mutex_);
  // Of all runs, raised at or after `since`.
  std::vector<TraceTrigger> TriggersSince(WallTime since) const EXCLUDES(mutex_);
  // Every run with processes here, and what goes wrong with it now.
  std::vector<RunState> States() const EXCLUDES(mutex_);
  // By the pod's uid.
  std::map<std::string, TracedStages> Stages() const EXCLUDES(mutex_);

 private:
  struct OpenRing;
  struct Look;
  void Scan();
  void OpenRingAt(const std::string& path, const TraceFolder& folder);
  // False when the ring is done with.
  bool LookAt(OpenRing& ring, Look& look);
  void SetState(OpenRing& ring, const ring::Tables& tables, analysis::ProcessView& view);
  void Publish(const Look& look, std::vector<TraceTrigger>& raised) EXCLUDES(mutex_);
  void CountMetrics(const Look& look, const std::vector<TraceTrigger>& raised);

  CollectorOptions options_;
  FileSystem& files_;
  const Clock& clock_;
  analysis::ProcessProbe probe_;
  // Of the sampling thread.
  std::map<std::string, std::unique_ptr<OpenRing>> rings_;
  ring::Tables tables_;  // of the ring at hand: kept, since fresh memory for each look costs more than the look
  TimePoint next_scan_{};
  std::set<LabelValues> shown_, shown_open_;  // series of the gauges, which go with their runs
  // Series of the counters, which go with their runs as well, or the families would be full after some hundred runs.
  std::set<LabelValues> counted_operations_, counted_triggers_;

  MetricFamily<Gauge>& rings_gauge_;
  MetricFamily<Gauge>& open_gauge_;
  MetricFamily<Counter>& operations_;
  MetricFamily<Counter>& seconds_;
  MetricFamily<Counter>& triggers_;
  MetricFamily<Counter>& lost_;
  MetricFamily<Counter>& unreadable_;

  mutable Mutex mutex_;
  std::map<std::string, RunHistory> histories_ GUARDED_BY(mutex_);
  std::vector<analysis::ProcessView> processes_ GUARDED_BY(mutex_);
  std::map<std::string, TracedStages> stages_ GUARDED_BY(mutex_);
};

}  // namespace paceline::agent
