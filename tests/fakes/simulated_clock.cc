#include "tests/fakes/simulated_clock.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "lib/base/check.h"

namespace paceline::fakes {

using namespace std::chrono_literals;

namespace {

constexpr Duration kStart = 1h;
constexpr Duration kStuckAfter = 60s;
constexpr WallTime kWallStart{1767323045s};

}  // namespace

SimulatedClock::SimulatedClock() : SimulatedClock(kWallStart) {}

SimulatedClock::SimulatedClock(WallTime wall_start)
    : now_(kStart), wall_offset_(wall_start.time_since_epoch() - kStart) {}

SimulatedClock::~SimulatedClock() {
  MutexLock lock(mutex_);
  CHECK(waiters_.empty());
}

TimePoint SimulatedClock::Now() const {
  MutexLock lock(mutex_);
  return now_;
}

WallTime SimulatedClock::WallNow() const {
  MutexLock lock(mutex_);
  return WallTime(now_.time_since_epoch() + wall_offset_);
}

bool SimulatedClock::SleepUntil(TimePoint when, std::stop_token stop) const {
  std::mutex mutex;
  std::condition_variable_any wakeup;
  std::unique_lock<std::mutex> lock(mutex);
  while (!stop.stop_requested() && Now() < when) WaitUntil(wakeup, lock, when, stop);
  return !stop.stop_requested();
}

void SimulatedClock::WaitUntil(std::condition_variable_any& wakeup, std::unique_lock<std::mutex>& lock, TimePoint when,
                               std::stop_token stop) const {
  Waiter waiter{&wakeup, lock.mutex(), when};
  {
    MutexLock state(mutex_);
    if (now_ >= when) return;
    waiters_.push_back(&waiter);
    changed_.NotifyAll();
  }
  // One pass through the predicate before the wait, then any wake-up returns to the caller. A notification cannot fall
  // between the lines above and the wait: AdvanceTo takes the waiter's mutex, which is given up by the wait alone.
  bool is_woken = false;
  wakeup.wait(lock, std::move(stop), [&is_woken] { return std::exchange(is_woken, true); });
  lock.unlock();  // a pinning AdvanceTo may be waiting for it
  {
    MutexLock state(mutex_);
    while (waiter.is_pinned) changed_.Wait(state);
    waiters_.remove(&waiter);
    changed_.NotifyAll();
  }
  lock.lock();
}

void SimulatedClock::Advance(Duration duration) {
  CHECK(duration >= Duration::zero());
  AdvanceTo(Now() + duration);
}

bool SimulatedClock::AdvanceToNextTimer() {
  TimePoint target;
  {
    MutexLock lock(mutex_);
    const Waiter* next = NextDue(TimePoint::max() - 1ns);
    if (next == nullptr) return false;
    target = next->when;
  }
  AdvanceTo(target);
  return true;
}

void SimulatedClock::StepWall(Duration step) {
  MutexLock lock(mutex_);
  wall_offset_ += step;
}

void SimulatedClock::AwaitTimers(size_t count) const { AwaitCount(Count::kTimersOnly, count); }

void SimulatedClock::AwaitBlocked(size_t count) const { AwaitCount(Count::kAll, count); }

size_t SimulatedClock::timers() const {
  MutexLock lock(mutex_);
  return CountWaiters(Count::kTimersOnly);
}

size_t SimulatedClock::CountWaiters(Count count) const {
  return std::count_if(waiters_.begin(), waiters_.end(), [count](const Waiter* waiter) {
    return !waiter->is_fired && (count == Count::kAll || waiter->when != TimePoint::max());
  });
}

void SimulatedClock::AwaitCount(Count count, size_t at_least) const {
  const RealClock real;
  const TimePoint give_up = real.Now() + kStuckAfter;
  MutexLock lock(mutex_);
  while (CountWaiters(count) < at_least) {
    if (real.Now() >= give_up) {
      std::fprintf(stderr, "SimulatedClock: %zu threads should wait for it, but only %zu do after a minute\n", at_least,
                   CountWaiters(count));
      std::abort();
    }
    changed_.WaitUntil(lock, real, give_up);
  }
}

SimulatedClock::Waiter* SimulatedClock::NextDue(TimePoint limit) const {
  Waiter* next = nullptr;
  for (Waiter* waiter : waiters_) {
    if (waiter->is_fired || waiter->when > limit) continue;
    if (next == nullptr || waiter->when < next->when) next = waiter;
  }
  return next;
}

void SimulatedClock::AdvanceTo(TimePoint target) {
  while (true) {
    Waiter* due = nullptr;
    {
      MutexLock lock(mutex_);
      due = NextDue(target);
      if (due == nullptr) {
        now_ = std::max(now_, target);
        return;
      }
      now_ = std::max(now_, due->when);
      due->is_fired = true;
      due->is_pinned = true;
    }
    {
      std::lock_guard<std::mutex> waiter_lock(*due->mutex);
      due->wakeup->notify_all();
    }
    MutexLock lock(mutex_);
    due->is_pinned = false;
    changed_.NotifyAll();
  }
}

}  // namespace paceline::fakes
