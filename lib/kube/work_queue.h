// The queue between watches and reconcile workers: a set of keys, not a list of events, so that a hundred changes of
// one object cost one reconcile, and one object is never reconciled by two workers at a time. Semantics and numbers are
// those of client-go.
//
// Watch handlers call Add; Controller's workers call Get and Done. Delayed keys need no thread: a waiting Get wakes up
// for them. Thread-safe; only Get blocks.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/metrics.h"
#include "lib/kube/resource.h"

namespace paceline::kube {

// kLow is for the objects of the first list after a start, so that real changes do not wait behind thousands of keys
// that most likely need nothing. After eight normal keys one low key goes first, so low never starves.
enum class Priority { kLow, kNormal };

struct WorkQueueOptions {
  std::string name;  // label of the workqueue_* metrics
  Duration retry_initial = std::chrono::milliseconds(5);
  Duration retry_max = std::chrono::seconds(1000);
  // All keys together: a burst of retries, then one each period.
  double retry_burst = 100;
  Duration retry_period = std::chrono::milliseconds(100);
};

class WorkQueue {
 public:
  // `clock` and `metrics` must outlive the queue. Metrics (labels name, controller): workqueue_depth, _adds_total,
  // _queue_duration_seconds, _work_duration_seconds, _unfinished_work_seconds, _longest_running_processor_seconds,
  // _retries_total.
  WorkQueue(const WorkQueueOptions& options, const Clock& clock, MetricsRegistry& metrics);
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Queues `key`, unless it is queued already (then at most its priority rises). A key that is being worked on is
  // queued once when its worker calls Done. Ignored after ShutDown.
  void Add(const ObjectKey& key, Priority priority = Priority::kNormal);

  // Add, but not before `delay` has passed; zero or less adds at once. Of several delays of one key the shortest
  // counts, and an Add in between does not cancel it.
  void AddAfter(const ObjectKey& key, Duration delay, Priority priority = Priority::kNormal);

  // AddAfter by the larger of the key's own back-off and the global limit. The way to retry a failure.
  void AddRateLimited(const ObjectKey& key, Priority priority = Priority::kNormal);

  // Resets the back-off of `key`; called on success.
  void Forget(const ObjectKey& key);
  // Failures of `key` since the last Forget.
  int Failures(const ObjectKey& key) const;

  // The next key, marked as being worked on; the caller must call Done. Blocks while there is none. Empty when `stop`
  // is requested, or after ShutDown when nothing is queued any more.
  std::optional<ObjectKey> Get(std::stop_token stop);
  void Done(const ObjectKey& key);

  // No key gets in any more, delayed ones are dropped; what is queued is still handed out.
  void ShutDown();
  // ShutDown, then blocks until everything queued was handed out and Done, or until `deadline`: kDeadlineExceeded with
  // the number of keys left.
  Status ShutDownAndDrain(Deadline deadline);

  // Keys ready to be handed out.
  size_t Depth() const;
  // Keys that wait for their time.
  size_t Delayed() const;

 private:
  class State;
  // Shared with the metrics refresher, which the registry keeps longer than a queue may live.
  std::shared_ptr<State> state_;
};

}  // namespace paceline::kube
