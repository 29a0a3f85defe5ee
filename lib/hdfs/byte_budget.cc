#include "lib/hdfs/byte_budget.h"

#include <algorithm>

namespace paceline::hdfs {

bool ByteBudget::Take(uint64_t bytes, TimePoint when) {
  MutexLock lock(mutex_);
  while (used_ + bytes > limit_) {
    if (clock_.Now() >= when) return false;
    given_.WaitUntil(lock, clock_, when);
  }
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return true;
}

void ByteBudget::Force(uint64_t bytes) {
  MutexLock lock(mutex_);
  used_ += bytes;
  peak_ = std::max(peak_, used_);
}

void ByteBudget::Give(uint64_t bytes) {
  MutexLock lock(mutex_);
  used_ -= bytes;
  given_.NotifyAll();
}

uint64_t ByteBudget::peak_bytes() const {
  MutexLock lock(mutex_);
  return peak_;
}

}  // namespace paceline::hdfs
