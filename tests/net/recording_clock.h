// The real clock, except that sleeping costs no time and is written down: for tests of waits between attempts that talk
// to real sockets meanwhile. Thread-safe.
#pragma once

#include <vector>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace paceline::net {

class RecordingClock final : public Clock {
 public:
  TimePoint Now() const override { return real_.Now(); }
  WallTime WallNow() const override { return real_.WallNow(); }
  bool SleepUntil(TimePoint when, std::stop_token stop) const override {
    MutexLock lock(mutex_);
    sleeps_.push_back(when - real_.Now());
    return !stop.stop_requested();
  }
  void WaitUntil(std::condition_variable_any& wakeup, std::unique_lock<std::mutex>& lock, TimePoint when,
                 std::stop_token stop) const override {
    real_.WaitUntil(wakeup, lock, when, std::move(stop));
  }

  // For the rare wait that is about real time.
  const Clock& real() const { return real_; }

  std::vector<Duration> sleeps() const {
    MutexLock lock(mutex_);
    return sleeps_;
  }

 private:
  RealClock real_;
  mutable Mutex mutex_;
  mutable std::vector<Duration> sleeps_ GUARDED_BY(mutex_);
};

}  // namespace paceline::net
