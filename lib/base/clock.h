// Time as a dependency: code that reads or waits for time takes a Clock&, so tests move time instead of sleeping.
//
// Two readings, never mixed: Now() is monotonic and for intervals, deadlines and waits; WallNow() is for timestamps
// that people or other machines read. Only main() makes a RealClock; tests use fakes::SimulatedClock. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace paceline {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;
using WallTime = std::chrono::time_point<std::chrono::system_clock, Duration>;

class Clock {
 public:
  virtual ~Clock() = default;

  virtual TimePoint Now() const = 0;
  virtual WallTime WallNow() const = 0;

  // Blocks until `when` or until a stop is requested. Returns true when the time came, false when stopped, so that a
  // loop reads `while (clock.SleepUntil(next, stop))`.
  virtual bool SleepUntil(TimePoint when, std::stop_token stop) const = 0;

  // Waits on `wakeup` (with `lock` held, as std::condition_variable_any does) until notified, until `when`, or until a
  // stop is requested; spurious wake-ups happen, callers re-check their condition. The building block of queues.
  virtual void WaitUntil(std::condition_variable_any& wakeup, std::unique_lock<std::mutex>& lock, TimePoint when,
                         std::stop_token stop) const = 0;

  bool SleepFor(Duration duration, std::stop_token stop) const { return SleepUntil(Now() + duration, std::move(stop)); }
};

class RealClock final : public Clock {
 public:
  TimePoint Now() const override;
  WallTime WallNow() const override;
  bool SleepUntil(TimePoint when, std::stop_token stop) const override;
  void WaitUntil(std::condition_variable_any& wakeup, std::unique_lock<std::mutex>& lock, TimePoint when,
                 std::stop_token stop) const override;
};

// When a blocking call must give up. Passed by value down a chain of calls so that the whole chain shares one limit.
class Deadline {
 public:
  static Deadline After(const Clock& clock, Duration duration) { return Deadline(clock.Now() + duration); }
  static Deadline At(TimePoint when) { return Deadline(when); }
  static Deadline Infinite() { return Deadline(TimePoint::max()); }

  TimePoint when() const { return when_; }
  bool is_infinite() const { return when_ == TimePoint::max(); }
  bool Expired(const Clock& clock) const { return clock.Now() >= when_; }
  // Zero when past; Duration::max() when infinite.
  Duration Remaining(const Clock& clock) const;
  // The earlier of the two.
  Deadline Min(Deadline other) const { return Deadline(std::min(when_, other.when_)); }

 private:
  explicit Deadline(TimePoint when) : when_(when) {}
  TimePoint when_;
};

// RFC 3339 in UTC, as Kubernetes writes it: "2026-01-02T03:04:05Z"; MicroTime has exactly six decimals.
std::string FormatRfc3339(WallTime time);
std::string FormatRfc3339Micro(WallTime time);
// Accepts any number of decimals and any numeric zone offset. kInvalidArgument otherwise.
Result<WallTime> ParseRfc3339(std::string_view text);

// Seconds as a double, for metrics and reports.
inline double ToSeconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace paceline
