#include "lib/hdfs/hdfs_reader.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace paceline::hdfs {
namespace {

constexpr uint64_t kMaxWindowBytes = 256 << 20;
// Ranges behind the reads that are kept for a reader that jumps back a little.
constexpr size_t kKeptRanges = 4;
// A read that waits longer than this opens its window further, and again.
constexpr Duration kPatience = std::chrono::milliseconds(50);

}  // namespace

HdfsReader::HdfsReader(FetchPool& pool, std::shared_ptr<FileBlocks> file, uint64_t length)
    : pool_(pool),
      file_(std::move(file)),
      length_(length),
      window_({.unit = pool.unit_bytes(), .max_bytes = std::min(kMaxWindowBytes, pool.budget_bytes() / 2)}) {}

Result<size_t> HdfsReader::Read(uint64_t offset, std::span<std::byte> out, Deadline deadline) {
  if (offset >= length_ || out.empty()) return 0;
  out = out.first(std::min<uint64_t>(out.size(), length_ - offset));
  uint64_t ahead;
  bool is_cached;
  {
    MutexLock lock(mutex_);
    ahead = window_.OnRead(offset, out.size());
    const auto after = cache_.upper_bound(offset);
    is_cached = after != cache_.begin() &&
                std::prev(after)->second.fetch->range.offset + std::prev(after)->second.fetch->range.length > offset;
  }
  const bool jumps = ahead == 0 && !is_cached && out.size() < pool_.unit_bytes();
  const Status status = jumps ? ReadByJumps(offset, out, deadline)
                              : ReadForward(offset, out, std::max<uint64_t>(ahead, pool_.unit_bytes()), deadline);
  if (!status.ok()) return status;
  return out.size();
}

// Brings no byte more than was asked for: the next read will be elsewhere.
Status HdfsReader::ReadByJumps(uint64_t offset, std::span<std::byte> out, Deadline deadline) {
  const auto blocks = file_->blocks();
  while (!out.empty()) {
    const LocatedBlock* block = FindBlock(*blocks, offset);
    if (block == nullptr) return DataLossError("read " + file_->path() + ": no block holds its bytes");
    const uint64_t size = std::min<uint64_t>(out.size(), block->end() - offset);
    const auto fetch = pool_.Start(file_, {offset, size}, FetchPool::Urgency::kNeeded);
    RETURN_IF_ERROR(pool_.Wait(*fetch, deadline));
    std::memcpy(out.data(), fetch->data(), size);
    out = out.subspan(size);
    offset += size;
  }
  return Status();
}

Status HdfsReader::ReadForward(uint64_t offset, std::span<std::byte> out, uint64_t ahead, Deadline deadline) {
  const auto blocks = file_->blocks();
  const uint64_t end = offset + out.size();
  while (offset < end) {
    // Also inside of a large read no more than the window is asked for at once: that bounds its memory.
    const std::vector<ByteRange> ranges = PlanRanges(
        *blocks, {offset, std::min(std::max(ahead, end - offset), ahead + pool_.unit_bytes())}, pool_.unit_bytes());
    if (ranges.empty()) return DataLossError("read " + file_->path() + ": no block holds its bytes");
    const ByteRange first = ranges.front();
    const auto fetch = GetOrStart(first, FetchPool::Urgency::kNeeded);
    StartAhead(std::span(ranges).subspan(1));
    if (const Status status = WaitFor(*fetch, offset, deadline); !status.ok()) {
      // A failed range must not be found again; one that only is late may.
      if (status.code() != StatusCode::kDeadlineExceeded) {
        MutexLock lock(mutex_);
        cache_.erase(first.offset);
      }
      return status;
    }
    const uint64_t take = std::min(first.offset + first.length, end) - offset;
    std::memcpy(out.data() + (out.size() - (end - offset)), fetch->data() + (offset - first.offset), take);
    offset += take;
    Consumed(first.offset, take);
  }
  return Status();
}

void HdfsReader::StartAhead(std::span<const ByteRange> ranges) {
  for (const ByteRange& range : ranges) {
    if (GetOrStart(range, FetchPool::Urgency::kAhead) == nullptr) return;
  }
}

Status HdfsReader::WaitFor(RangeFetch& fetch, uint64_t offset, Deadline deadline) {
  while (true) {
    const Deadline step = deadline.Min(Deadline::After(pool_.clock(), kPatience));
    const Status status = pool_.Wait(fetch, step);
    if (status.code() != StatusCode::kDeadlineExceeded || deadline.Expired(pool_.clock())) return status;
    uint64_t ahead;
    {
      MutexLock lock(mutex_);
      ahead = window_.OnWait();
    }
    if (ahead > 0) StartAhead(PlanRanges(*file_->blocks(), {offset, ahead}, pool_.unit_bytes()));
  }
}

std::shared_ptr<RangeFetch> HdfsReader::GetOrStart(ByteRange range, FetchPool::Urgency urgency) {
  {
    MutexLock lock(mutex_);
    const auto found = cache_.find(range.offset);
    if (found != cache_.end()) {
      found->second.last_use = ++uses_;
      return found->second.fetch;
    }
  }
  std::shared_ptr<RangeFetch> fetch = pool_.Start(file_, range, urgency);
  if (fetch == nullptr) return nullptr;
  MutexLock lock(mutex_);
  // Another thread may have been quicker; then ours is dropped before it has begun.
  Cached& cached = cache_[range.offset];
  if (cached.fetch == nullptr) cached.fetch = std::move(fetch);
  cached.last_use = ++uses_;
  return cached.fetch;
}

void HdfsReader::Consumed(uint64_t start, uint64_t bytes) {
  MutexLock lock(mutex_);
  const auto found = cache_.find(start);
  if (found == cache_.end()) return;
  found->second.served_bytes += bytes;
  if (found->second.served_bytes >= found->second.fetch->range.length) cache_.erase(found);
  EvictBehind();
}

void HdfsReader::EvictBehind() {
  // Ranges that nobody has come back to while many others were used: left behind by a jump.
  const uint64_t units = kMaxWindowBytes / pool_.unit_bytes() + kKeptRanges;
  while (cache_.size() > units) {
    const auto oldest = std::min_element(cache_.begin(), cache_.end(), [](const auto& a, const auto& b) {
      return a.second.last_use < b.second.last_use;
    });
    cache_.erase(oldest);
  }
}

void HdfsReader::Prefetch(ByteRange range) {
  if (range.offset >= length_) return;
  range.length = std::min(range.length, length_ - range.offset);
  StartAhead(PlanRanges(*file_->blocks(), range, pool_.unit_bytes()));
}

}  // namespace paceline::hdfs
