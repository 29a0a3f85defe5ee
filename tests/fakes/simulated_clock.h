// A Clock that stands still until a test moves it, so that tests of waits, time-outs and periods need no sleep and give
// the same result on a busy machine.
//
// The usual shape of a test, where a thread of the code under test waits for time:
//   clock.AwaitTimers(1);     // the thread is asleep now, so moving time cannot come too early
//   clock.Advance(10s);       // it is woken, because its time has come
// Thread-safe, except that only one thread at a time may move the clock.
#pragma once

#include <list>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace paceline::fakes {

class SimulatedClock final : public Clock {
 public:
  // Starts at 2026-01-02T03:04:05Z, or at `wall_start`. The monotonic reading starts one hour after its epoch, so that
  // "now minus something" stays positive as it does on a real machine.
  SimulatedClock();
  explicit SimulatedClock(WallTime wall_start);
  // No thread may be blocked in the clock any more.
  ~SimulatedClock() override;

  TimePoint Now() const override;
  WallTime WallNow() const override;
  bool SleepUntil(TimePoint when, std::stop_token stop) const override;
  void WaitUntil(std::condition_variable_any& wakeup, std::unique_lock<std::mutex>& lock, TimePoint when,
                 std::stop_token stop) const override;

  // Moves both readings forward. Wakes whoever waits for a time up to the new one, in the order of their times, and
  // Now() reads each of those times as it is passed. Does not wait for the woken threads to do anything. Must not be
  // called with a lock held that a waiter waits with.
  void Advance(Duration duration);

  // Advances to the nearest time that anybody waits for and wakes the waiters of that time. False, and nothing moves,
  // when nobody waits for a time.
  bool AdvanceToNextTimer();

  // Steps WallNow() alone, forward or back, as NTP or an administrator would.
  void StepWall(Duration step);

  // Blocks until at least `count` threads are in SleepUntil or WaitUntil with a time to wait for. A woken thread stops
  // counting at the moment Advance wakes it, so after Advance this waits for its next sleep. If that takes longer than
  // a minute of real time the test is stuck, and the process ends with a message.
  void AwaitTimers(size_t count) const;

  // As AwaitTimers, but counts waits without a time (TimePoint::max()) as well. A thread that the code under test has
  // notified counts until it runs.
  void AwaitBlocked(size_t count) const;

  // Threads that wait for a time right now.
  size_t timers() const;

 private:
  struct Waiter {
    std::condition_variable_any* wakeup;
    std::mutex* mutex;
    TimePoint when;
    bool is_fired = false;   // its time came: no longer counted
    bool is_pinned = false;  // the clock is notifying it: `wakeup` and `mutex` must stay alive
  };

  enum class Count { kTimersOnly, kAll };
  size_t CountWaiters(Count count) const REQUIRES(mutex_);
  void AwaitCount(Count count, size_t at_least) const;
  Waiter* NextDue(TimePoint limit) const REQUIRES(mutex_);
  // Wakes every waiter with a time up to `target` and ends with Now() == `target`.
  void AdvanceTo(TimePoint target);

  mutable Mutex mutex_;
  mutable CondVar changed_;
  TimePoint now_ GUARDED_BY(mutex_);
  Duration wall_offset_ GUARDED_BY(mutex_);  // WallNow() since its epoch, minus Now() since its own
  mutable std::list<Waiter*> waiters_ GUARDED_BY(mutex_);
};

}  // namespace paceline::fakes
