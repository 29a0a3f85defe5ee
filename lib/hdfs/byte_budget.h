// The bytes that all writers of one filesystem hold in memory because they are not safe yet. Internal to lib/hdfs.
// Thread-safe.
#pragma once

#include <cstdint>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace paceline::hdfs {

// How long a writer waits for room before it looks what it can do without.
inline constexpr Duration kMemoryPatience = std::chrono::milliseconds(200);

class ByteBudget {
 public:
  ByteBudget(uint64_t limit, const Clock& clock) : limit_(limit), clock_(clock) {}
  // False when there is no room until `when`.
  bool Take(uint64_t bytes, TimePoint when);
  // Beyond the limit, for a caller who cannot go on otherwise and holds nothing.
  void Force(uint64_t bytes);
  void Give(uint64_t bytes);
  uint64_t peak_bytes() const;

 private:
  const uint64_t limit_;
  const Clock& clock_;
  mutable Mutex mutex_;
  CondVar given_;
  uint64_t used_ GUARDED_BY(mutex_) = 0;
  uint64_t peak_ GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline::hdfs
