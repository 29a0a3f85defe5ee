// Mutex with Clang thread-safety annotations: what a lock guards is written at the field (GUARDED_BY) and checked by
// the `check` preset. std::mutex itself is invisible to that analysis, so it is used nowhere else.
//
// Rules of the house: no I/O, no callback and no log under a lock; a lock's scope is a visible block.
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>

#include "lib/base/clock.h"

#if defined(__clang__)
#define PACELINE_TS_ATTRIBUTE(x) __attribute__((x))
#else
#define PACELINE_TS_ATTRIBUTE(x)
#endif

#define CAPABILITY(x) PACELINE_TS_ATTRIBUTE(capability(x))
#define SCOPED_CAPABILITY PACELINE_TS_ATTRIBUTE(scoped_lockable)
#define GUARDED_BY(x) PACELINE_TS_ATTRIBUTE(guarded_by(x))
#define PT_GUARDED_BY(x) PACELINE_TS_ATTRIBUTE(pt_guarded_by(x))
#define REQUIRES(...) PACELINE_TS_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) PACELINE_TS_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) PACELINE_TS_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define RELEASE(...) PACELINE_TS_ATTRIBUTE(release_capability(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS PACELINE_TS_ATTRIBUTE(no_thread_safety_analysis)

namespace paceline {

class CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ACQUIRE() { mutex_.lock(); }
  void Unlock() RELEASE() { mutex_.unlock(); }

 private:
  friend class MutexLock;
  friend class CondVar;
  std::mutex mutex_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() RELEASE() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

// Condition variable for MutexLock. Callers loop on their condition: every wait may wake spuriously.
class CondVar {
 public:
  void NotifyOne() { wakeup_.notify_one(); }
  void NotifyAll() { wakeup_.notify_all(); }

  void Wait(MutexLock& lock) { wakeup_.wait(lock.lock_); }
  // Returns on notify, at `when` (by `clock`), or when `stop` is requested.
  void WaitUntil(MutexLock& lock, const Clock& clock, TimePoint when, std::stop_token stop = {}) {
    clock.WaitUntil(wakeup_, lock.lock_, when, std::move(stop));
  }

 private:
  std::condition_variable_any wakeup_;
};

}  // namespace paceline
