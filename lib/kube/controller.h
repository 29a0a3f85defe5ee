// Runs a Reconciler over a WorkQueue: N workers, retry with back-off, one log line for each returned error, and the
// controller_runtime_* metrics that stock dashboards know.
//
// A Reconciler is level-triggered: it is told which object to look at and never what happened to it, reads the present
// state, and makes the world fit. It may be called at any time, again, and after a restart.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "lib/base/log.h"
#include "lib/kube/work_queue.h"

namespace paceline::kube {

// What to do after a reconcile that worked.
struct Action {
  // Nothing until the next change.
  static Action Done() { return {}; }
  // Look again after `delay` (> 0), for what no watch reports: a timeout, a poll.
  static Action RequeueAfter(Duration delay) { return {delay}; }

  std::optional<Duration> requeue_after;
};

class Reconciler {
 public:
  virtual ~Reconciler() = default;

  // Makes the state behind `key` what it should be; the object may be gone. Blocks, until `deadline` or `stop` at the
  // latest. Called by several workers at once, never twice at a time for one key. An error is retried with back-off,
  // except a terminal one (see IsTerminal), which waits for the next change of the object.
  virtual Result<Action> Reconcile(const ObjectKey& key, Deadline deadline, std::stop_token stop) = 0;
};

// True for errors that trying again cannot mend: kInvalidArgument and kUnimplemented.
bool IsTerminal(const Status& status);

struct ControllerOptions {
  std::string name;  // label `controller` of the metrics and of log lines
  int workers = 1;
  Duration reconcile_timeout = std::chrono::minutes(1);
};

class Controller {
 public:
  // All references must outlive the controller. Makes the queue (named as the controller) but starts nothing.
  Controller(const ControllerOptions& options, Reconciler& reconciler, const Clock& clock, Logger& log,
             MetricsRegistry& metrics);
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  // For the watch handlers that feed it. Valid as long as the controller.
  WorkQueue& queue();

  // Reconciles until `stop` is requested, then gives running reconciles the chance to end (they see `stop`, and have
  // their own deadline) and returns. Keys still queued are dropped: the next start finds them by its first list. Call
  // once, after the caches have synced.
  void Run(std::stop_token stop);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::kube
