#include "lib/kube/work_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "lib/base/mutex.h"
#include "lib/kube/rate_limiter.h"

namespace paceline::kube {
namespace {

constexpr int kNormalKeysBeforeLow = 8;

struct QueueMetrics {
  QueueMetrics(const std::string& name, MetricsRegistry& registry) {
    const std::vector<std::string> names = {"name", "controller"};
    const LabelValues labels = {name, name};
    // client-go's bounds: 10 ns to 1000 s.
    const std::vector<double> buckets = ExponentialBuckets(10e-9, 10, 12);
    depth = &registry.GaugeFamily({"workqueue_depth", "Keys ready to be worked on", names}).With(labels);
    adds = &registry.CounterFamily({"workqueue_adds_total", "Keys that got into the queue", names}).With(labels);
    queue_seconds = &registry
                         .HistogramFamily(
                             {"workqueue_queue_duration_seconds", "How long a key waited for a worker", names}, buckets)
                         .With(labels);
    work_seconds =
        &registry.HistogramFamily({"workqueue_work_duration_seconds", "How long a key was worked on", names}, buckets)
             .With(labels);
    unfinished = &registry
                      .GaugeFamily({"workqueue_unfinished_work_seconds",
                                    "Time spent so far on keys in work, added up; grows while workers hang", names})
                      .With(labels);
    longest = &registry
                   .GaugeFamily({"workqueue_longest_running_processor_seconds",
                                 "Time spent so far on the key that is in work the longest", names})
                   .With(labels);
    retries =
        &registry.CounterFamily({"workqueue_retries_total", "Keys queued again after a failure", names}).With(labels);
  }

  Gauge* depth;
  Counter* adds;
  Histogram* queue_seconds;
  Histogram* work_seconds;
  Gauge* unfinished;
  Gauge* longest;
  Counter* retries;
};

}  // namespace

class WorkQueue::State {
 public:
  State(const WorkQueueOptions& options, const Clock& clock, MetricsRegistry& registry)
      : clock_(clock),
        metrics_(options.name, registry),
        backoff_(options.retry_initial, options.retry_max),
        retries_(options.retry_burst, options.retry_period, clock.Now()) {}

  void Add(const ObjectKey& key, Priority priority) {
    MutexLock lock(mutex_);
    if (is_shut_down_) return;
    AddLocked(key, priority);
  }

  void AddAfter(const ObjectKey& key, Duration delay, Priority priority) {
    MutexLock lock(mutex_);
    AddAfterLocked(key, delay, priority);
  }

  void AddRateLimited(const ObjectKey& key, Priority priority) {
    MutexLock lock(mutex_);
    if (is_shut_down_) return;
    metrics_.retries->Add();
    const Duration own = backoff_.Next(key);
    AddAfterLocked(key, std::max(own, retries_.Reserve(clock_.Now())), priority);
  }

  void Forget(const ObjectKey& key) {
    MutexLock lock(mutex_);
    backoff_.Forget(key);
  }

  int Failures(const ObjectKey& key) const {
    MutexLock lock(mutex_);
    return backoff_.Failures(key);
  }

  std::optional<ObjectKey> Get(const std::stop_token& stop) {
    MutexLock lock(mutex_);
    while (true) {
      if (stop.stop_requested()) return std::nullopt;
      PromoteDue();
      if (!low_.empty() || !normal_.empty()) return Take();
      if (is_shut_down_) return std::nullopt;
      const TimePoint next = delayed_by_time_.empty() ? TimePoint::max() : delayed_by_time_.begin()->first;
      wakeup_.WaitUntil(lock, clock_, next, stop);
    }
  }

  void Done(const ObjectKey& key) {
    MutexLock lock(mutex_);
    auto it = processing_.find(key);
    if (it == processing_.end()) return;
    metrics_.work_seconds->Observe(ToSeconds(clock_.Now() - it->second));
    processing_.erase(it);
    if (auto dirty = dirty_.find(key); dirty != dirty_.end()) {
      dirty->second.queued_at = clock_.Now();
      PutInLine(key, dirty->second);
    }
    if (is_shut_down_) drained_.NotifyAll();
  }

  void ShutDown() {
    MutexLock lock(mutex_);
    is_shut_down_ = true;
    delayed_by_time_.clear();
    delayed_.clear();
    wakeup_.NotifyAll();
    drained_.NotifyAll();
  }

  Status AwaitDrained(Deadline deadline) {
    MutexLock lock(mutex_);
    while (!dirty_.empty() || !processing_.empty()) {
      if (deadline.Expired(clock_)) {
        return DeadlineExceededError(
            fmt::format("work queue not drained: {} keys queued, {} in work", dirty_.size(), processing_.size()));
      }
      drained_.WaitUntil(lock, clock_, deadline.when());
    }
    return Status();
  }

  size_t Depth() const {
    MutexLock lock(mutex_);
    return low_.size() + normal_.size();
  }

  size_t Delayed() const {
    MutexLock lock(mutex_);
    return delayed_.size();
  }

  // Before each scrape: the gauges that grow with time alone.
  void RefreshMetrics() {
    MutexLock lock(mutex_);
    const TimePoint now = clock_.Now();
    double sum = 0;
    double longest = 0;
    for (const auto& [key, started] : processing_) {
      const double seconds = ToSeconds(now - started);
      sum += seconds;
      longest = std::max(longest, seconds);
    }
    metrics_.unfinished->Set(sum);
    metrics_.longest->Set(longest);
  }

 private:
  struct Waiting {
    Priority priority;
    TimePoint queued_at;
    uint64_t place;  // in its line; meaningless while the key is in work
  };
  struct Later {
    TimePoint when;
    Priority priority;
  };
  using Line = std::map<uint64_t, ObjectKey>;  // by place: first in, first out

  Line& LineOf(Priority priority) REQUIRES(mutex_) { return priority == Priority::kLow ? low_ : normal_; }

  // The first key of the line whose turn it is; one of them has keys.
  ObjectKey Take() REQUIRES(mutex_) {
    const bool is_low_turn = !low_.empty() && (normal_.empty() || normal_in_a_row_ >= kNormalKeysBeforeLow);
    normal_in_a_row_ = is_low_turn ? 0 : normal_in_a_row_ + 1;
    Line& line = is_low_turn ? low_ : normal_;
    ObjectKey key = std::move(line.begin()->second);
    line.erase(line.begin());
    UpdateDepth();
    const TimePoint now = clock_.Now();
    metrics_.queue_seconds->Observe(ToSeconds(now - dirty_.at(key).queued_at));
    dirty_.erase(key);
    processing_[key] = now;
    return key;
  }

  void AddLocked(const ObjectKey& key, Priority priority) REQUIRES(mutex_) {
    auto [it, is_new] = dirty_.try_emplace(key, Waiting{priority, clock_.Now(), 0});
    if (!is_new && priority <= it->second.priority) return;
    const bool is_in_work = processing_.count(key) > 0;  // then Done will put it in line
    if (is_new) {
      metrics_.adds->Add();
    } else {
      if (!is_in_work) LineOf(it->second.priority).erase(it->second.place);
      it->second.priority = priority;
    }
    if (!is_in_work) PutInLine(key, it->second);
  }

  void PutInLine(const ObjectKey& key, Waiting& waiting) REQUIRES(mutex_) {
    waiting.place = next_place_++;
    LineOf(waiting.priority).emplace(waiting.place, key);
    UpdateDepth();
    wakeup_.NotifyOne();
  }

  void UpdateDepth() REQUIRES(mutex_) { metrics_.depth->Set(static_cast<double>(low_.size() + normal_.size())); }

  void AddAfterLocked(const ObjectKey& key, Duration delay, Priority priority) REQUIRES(mutex_) {
    if (is_shut_down_) return;
    if (delay <= Duration::zero()) return AddLocked(key, priority);
    const TimePoint when = clock_.Now() + delay;
    auto [it, is_new] = delayed_.try_emplace(key, Later{when, priority});
    if (!is_new) {
      it->second.priority = std::max(it->second.priority, priority);
      if (when >= it->second.when) return;
      EraseTime(key, it->second.when);
      it->second.when = when;
    }
    delayed_by_time_.emplace(when, key);
    // A waiting worker may be asleep until a later time.
    if (delayed_by_time_.begin()->first == when) wakeup_.NotifyOne();
  }

  void EraseTime(const ObjectKey& key, TimePoint when) REQUIRES(mutex_) {
    auto [begin, end] = delayed_by_time_.equal_range(when);
    auto it = std::find_if(begin, end, [&key](const auto& entry) { return entry.second == key; });
    if (it != end) delayed_by_time_.erase(it);
  }

  void PromoteDue() REQUIRES(mutex_) {
    const TimePoint now = clock_.Now();
    while (!delayed_by_time_.empty() && delayed_by_time_.begin()->first <= now) {
      const ObjectKey key = delayed_by_time_.begin()->second;
      delayed_by_time_.erase(delayed_by_time_.begin());
      auto later = delayed_.extract(key);
      AddLocked(key, later.mapped().priority);
    }
  }

  const Clock& clock_;
  mutable Mutex mutex_;
  CondVar wakeup_;   // for Get
  CondVar drained_;  // for AwaitDrained
  QueueMetrics metrics_;
  KeyBackoff backoff_ GUARDED_BY(mutex_);
  TokenBucket retries_ GUARDED_BY(mutex_);
  // client-go's two sets. A key in `dirty_` and not in `processing_` is also in one of the two lines.
  std::map<ObjectKey, Waiting> dirty_ GUARDED_BY(mutex_);
  std::map<ObjectKey, TimePoint> processing_ GUARDED_BY(mutex_);
  Line low_ GUARDED_BY(mutex_);
  Line normal_ GUARDED_BY(mutex_);
  uint64_t next_place_ GUARDED_BY(mutex_) = 0;
  int normal_in_a_row_ GUARDED_BY(mutex_) = 0;
  std::map<ObjectKey, Later> delayed_ GUARDED_BY(mutex_);
  std::multimap<TimePoint, ObjectKey> delayed_by_time_ GUARDED_BY(mutex_);
  bool is_shut_down_ GUARDED_BY(mutex_) = false;
};

WorkQueue::WorkQueue(const WorkQueueOptions& options, const Clock& clock, MetricsRegistry& metrics)
    : state_(std::make_shared<State>(options, clock, metrics)) {
  metrics.AddRefresher([weak = std::weak_ptr<State>(state_)] {
    if (auto state = weak.lock()) state->RefreshMetrics();
  });
}

WorkQueue::~WorkQueue() = default;

void WorkQueue::Add(const ObjectKey& key, Priority priority) { state_->Add(key, priority); }

void WorkQueue::AddAfter(const ObjectKey& key, Duration delay, Priority priority) {
  state_->AddAfter(key, delay, priority);
}

void WorkQueue::AddRateLimited(const ObjectKey& key, Priority priority) { state_->AddRateLimited(key, priority); }

void WorkQueue::Forget(const ObjectKey& key) { state_->Forget(key); }

int WorkQueue::Failures(const ObjectKey& key) const { return state_->Failures(key); }

std::optional<ObjectKey> WorkQueue::Get(std::stop_token stop) { return state_->Get(stop); }

void WorkQueue::Done(const ObjectKey& key) { state_->Done(key); }

void WorkQueue::ShutDown() { state_->ShutDown(); }

Status WorkQueue::ShutDownAndDrain(Deadline deadline) {
  state_->ShutDown();
  return state_->AwaitDrained(deadline);
}

size_t WorkQueue::Depth() const { return state_->Depth(); }

size_t WorkQueue::Delayed() const { return state_->Delayed(); }

}  // namespace paceline::kube
