// Which chunks were read, in the order of their first touch: the base of the recorded hot set. Reads are noted whether
// they hit or missed, since a warm cache must not hide what a cold start needs; prefetch is never noted.
//
// One log per mounted image. Thread-safe; never blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace paceline::blocks {

struct Access {
  uint32_t layer = 0;  // from the bottom
  uint32_t chunk = 0;
  Duration after{0};  // since the log began
  friend bool operator==(const Access&, const Access&) = default;
};

class AccessLog {
 public:
  // `chunk_counts`: of each layer, bottom first. Recording begins now. `clock` is borrowed.
  AccessLog(const std::vector<uint32_t>& chunk_counts, const Clock& clock);

  void Note(uint32_t layer, uint32_t chunk) EXCLUDES(mutex_);
  // Nothing is noted after this.
  void End() { is_recording_ = false; }
  bool is_recording() const { return is_recording_; }
  // When the first chunk was read; nothing as long as none was.
  std::optional<TimePoint> first() const EXCLUDES(mutex_);
  // So far, in order.
  std::vector<Access> accesses() const EXCLUDES(mutex_);

 private:
  const Clock& clock_;
  const TimePoint start_;
  std::atomic<bool> is_recording_{true};
  mutable Mutex mutex_;
  std::vector<std::vector<bool>> is_noted_ GUARDED_BY(mutex_);
  std::vector<Access> accesses_ GUARDED_BY(mutex_);
};

}  // namespace paceline::blocks
