// The real clock plus an offset: sleeping moves the offset on instead of waiting, and a test may move it too. For tests
// that talk to real sockets and are about hours. Thread-safe.
#pragma once

#include <vector>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace paceline::blocks {

class SkippingClock final : public Clock {
 public:
  TimePoint Now() const override { return real_.Now() + offset(); }
  WallTime WallNow() const override { return real_.WallNow() + offset(); }
  bool SleepUntil(TimePoint when, std::stop_token stop) const override {
    const Duration left = when - Now();
    MutexLock lock(mutex_);
    sleeps_.push_back(left);
    offset_ += std::max(left, Duration::zero());
    return !stop.stop_requested();
  }
  void WaitUntil(std::condition_variable_any& wakeup, std::unique_lock<std::mutex>& lock, TimePoint when,
                 std::stop_token stop) const override {
    real_.WaitUntil(wakeup, lock, when == TimePoint::max() ? when : when - offset(), std::move(stop));
  }

  void Advance(Duration duration) {
    MutexLock lock(mutex_);
    offset_ += duration;
  }
  std::vector<Duration> sleeps() const {
    MutexLock lock(mutex_);
    return sleeps_;
  }

 private:
  Duration offset() const {
    MutexLock lock(mutex_);
    return offset_;
  }

  RealClock real_;
  mutable Mutex mutex_;
  mutable Duration offset_ GUARDED_BY(mutex_){0};
  mutable std::vector<Duration> sleeps_ GUARDED_BY(mutex_);
};

}  // namespace paceline::blocks
