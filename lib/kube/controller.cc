#include "lib/kube/controller.h"

#include <thread>
#include <vector>

namespace paceline::kube {

bool IsTerminal(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kUnimplemented;
}

class Controller::Impl {
 public:
  Impl(const ControllerOptions& options, Reconciler& reconciler, const Clock& clock, Logger& log,
       MetricsRegistry& registry)
      : options_(options),
        reconciler_(reconciler),
        clock_(clock),
        log_(log),
        queue_({.name = options.name}, clock, registry),
        results_(registry.CounterFamily(
            {"controller_runtime_reconcile_total", "Reconciles by outcome", {"controller", "result"}})),
        errors_(
            registry
                .CounterFamily({"controller_runtime_reconcile_errors_total", "Reconciles that failed", {"controller"}})
                .With({options.name})),
        terminal_errors_(registry
                             .CounterFamily({"controller_runtime_terminal_reconcile_errors_total",
                                             "Reconciles that failed in a way that a retry cannot mend",
                                             {"controller"}})
                             .With({options.name})),
        timeouts_(registry
                      .CounterFamily({"controller_runtime_reconcile_timeouts_total",
                                      "Reconciles that ran into their time limit",
                                      {"controller"}})
                      .With({options.name})),
        seconds_(registry
                     .HistogramFamily(
                         {"controller_runtime_reconcile_time_seconds", "How long a reconcile took", {"controller"}},
                         // controller-runtime's bounds.
                         {0.005, 0.01, 0.025, 0.05, 0.1,  0.15, 0.2,  0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6,
                          0.7,   0.8,  0.9,   1.0,  1.25, 1.5,  1.75, 2.0,  2.5, 3.0,  3.5, 4.0,  4.5, 5,
                          6,     7,    8,     9,    10,   15,   20,   25,   30,  40,   50,  60})
                     .With({options.name})),
        active_(
            registry.GaugeFamily({"controller_runtime_active_workers", "Workers in a reconcile now", {"controller"}})
                .With({options.name})) {
    registry.GaugeFamily({"controller_runtime_max_concurrent_reconciles", "Workers of a controller", {"controller"}})
        .With({options.name})
        .Set(options.workers);
    // Alerts on rates need the series to exist before the first failure.
    for (const char* result : {"success", "error", "requeue_after"}) results_.With({options.name, result});
  }

  WorkQueue& queue() { return queue_; }

  void Run(const std::stop_token& stop) {
    std::vector<std::thread> workers;
    for (int i = 0; i < options_.workers; ++i) {
      workers.emplace_back([this, stop] {
        while (std::optional<ObjectKey> key = queue_.Get(stop)) {
          ReconcileOne(*key, stop);
          queue_.Done(*key);
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
    queue_.ShutDown();
  }

 private:
  void ReconcileOne(const ObjectKey& key, const std::stop_token& stop) {
    const TimePoint started = clock_.Now();
    const Deadline deadline = Deadline::At(started + options_.reconcile_timeout);
    active_.Add(1);
    const Result<Action> result = reconciler_.Reconcile(key, deadline, stop);
    active_.Add(-1);
    seconds_.Observe(ToSeconds(clock_.Now() - started));
    if (result.ok()) {
      OnSuccess(key, *result);
    } else if (!stop.stop_requested()) {
      // A failure while stopping is most likely the stop itself, and the next start looks again anyway.
      OnError(key, result.status(), deadline);
    }
  }

  void OnSuccess(const ObjectKey& key, const Action& action) {
    queue_.Forget(key);
    if (action.requeue_after) {
      Count("requeue_after");
      queue_.AddAfter(key, *action.requeue_after);
    } else {
      Count("success");
    }
  }

  void OnError(const ObjectKey& key, const Status& status, Deadline deadline) {
    Count("error");
    errors_.Add();
    if (status.code() == StatusCode::kDeadlineExceeded && deadline.Expired(clock_)) timeouts_.Add();
    if (IsTerminal(status)) {
      terminal_errors_.Add();
      queue_.Forget(key);
      log_.Error("reconcile failed, waiting for a change",
                 {{"controller", options_.name}, {"namespace", key.ns}, {"name", key.name}, {"error", status}});
      return;
    }
    queue_.AddRateLimited(key);
    if (status.code() == StatusCode::kAborted) {
      // Losing a race against another writer is everyday life.
      log_.Debug("reconcile lost a race, retrying",
                 {{"controller", options_.name}, {"namespace", key.ns}, {"name", key.name}, {"error", status}});
      return;
    }
    log_.Error("reconcile failed, retrying", {{"controller", options_.name},
                                              {"namespace", key.ns},
                                              {"name", key.name},
                                              {"failures", queue_.Failures(key)},
                                              {"error", status}});
  }

  void Count(const char* result) { results_.With({options_.name, result}).Add(); }

  const ControllerOptions options_;
  Reconciler& reconciler_;
  const Clock& clock_;
  Logger& log_;
  WorkQueue queue_;
  MetricFamily<Counter>& results_;
  Counter& errors_;
  Counter& terminal_errors_;
  Counter& timeouts_;
  Histogram& seconds_;
  Gauge& active_;
};

Controller::Controller(const ControllerOptions& options, Reconciler& reconciler, const Clock& clock, Logger& log,
                       MetricsRegistry& metrics)
    : impl_(std::make_unique<Impl>(options, reconciler, clock, log, metrics)) {}

Controller::~Controller() = default;

WorkQueue& Controller::queue() { return impl_->queue(); }

void Controller::Run(std::stop_token stop) { impl_->Run(stop); }

}  // namespace paceline::kube
