#include "lib/blocks/engine/access_log.h"

namespace paceline::blocks {

AccessLog::AccessLog(const std::vector<uint32_t>& chunk_counts, const Clock& clock)
    : clock_(clock), start_(clock.Now()) {
  for (const uint32_t count : chunk_counts) is_noted_.emplace_back(count, false);
}

void AccessLog::Note(uint32_t layer, uint32_t chunk) {
  if (!is_recording_) return;
  MutexLock lock(mutex_);
  if (layer >= is_noted_.size() || chunk >= is_noted_[layer].size() || is_noted_[layer][chunk]) return;
  is_noted_[layer][chunk] = true;
  accesses_.push_back({layer, chunk, clock_.Now() - start_});
}

std::optional<TimePoint> AccessLog::first() const {
  MutexLock lock(mutex_);
  if (accesses_.empty()) return std::nullopt;
  return start_ + accesses_.front().after;
}

std::vector<Access> AccessLog::accesses() const {
  MutexLock lock(mutex_);
  return accesses_;
}

}  // namespace paceline::blocks
