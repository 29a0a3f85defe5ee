// Probes this node when its plan asks for it, and only while nobody trains here: a probe takes all processors, the
// disk and the GPUs for some seconds, and what a job takes meanwhile would be measured as well. While pods of a
// training run are on the node the probe waits, and one that runs is ended when such a pod comes.
//
// Level-triggered: a probe is due while the plan's round is higher than the last that is done, so an agent that is
// killed over it begins anew on its return. One thread of its own runs Run; all else may be called from any.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "lib/api/node_plan.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/metrics.h"
#include "lib/base/mutex.h"
#include "lib/base/result.h"

namespace paceline::agent {

struct NodeProberOptions {
  // One probe; blocks for it, and ends soon after `stop` with kCancelled.
  std::function<Result<api::ProbeStatus>(const api::ProbeRequest& request, std::stop_token stop)> measure;
  // Whether a pod with a volume of ours is here: known before the operator's plan names its job. Must not block.
  std::function<bool()> has_pods;
  std::function<void()> on_news;                          // Status has changed
  Duration look_period = std::chrono::milliseconds(500);  // at has_pods, while a probe waits or runs
};

class NodeProber {
 public:
  // Borrows `clock`, `log` and `metrics`.
  NodeProber(NodeProberOptions options, const Clock& clock, Logger& log, MetricsRegistry& metrics);

  // The plan as it is now, with its status: what an agent before this one has found there is kept.
  void See(const api::NodePlan& plan) EXCLUDES(mutex_);
  // What the node's status is to say; nothing when no probe was ever asked for.
  std::optional<api::ProbeStatus> Status() const EXCLUDES(mutex_);
  // Nobody trains here and no probe runs: other nodes may measure their network with this one.
  bool IsFree() const EXCLUDES(mutex_);

  void Run(std::stop_token stop) EXCLUDES(mutex_);

 private:
  bool IsDue() const REQUIRES(mutex_) { return request_ && request_->round > done_.round; }
  // Waits until a probe may begin; nothing after `stop`.
  std::optional<api::ProbeRequest> Await(const std::stop_token& stop) EXCLUDES(mutex_);
  void Probe(const api::ProbeRequest& request, const std::stop_token& stop) EXCLUDES(mutex_);
  void Finish(const api::ProbeRequest& request, Result<api::ProbeStatus> found) EXCLUDES(mutex_);
  void Show() EXCLUDES(mutex_);

  const NodeProberOptions options_;
  const Clock& clock_;
  Logger& log_;
  MetricFamily<Gauge>& figures_;
  MetricFamily<Counter>& probes_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<api::ProbeRequest> request_ GUARDED_BY(mutex_);
  size_t jobs_ GUARDED_BY(mutex_) = 0;  // that the plan names
  bool is_running_ GUARDED_BY(mutex_) = false;
  std::string waits_for_ GUARDED_BY(mutex_);
  api::ProbeStatus done_ GUARDED_BY(mutex_);  // the last one; round 0: none
};

}  // namespace paceline::agent
