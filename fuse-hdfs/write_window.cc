#include "fuse-hdfs/write_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lib/base/check.h"

namespace paceline::fuse_hdfs {
namespace {

// Small writes are put together to pieces of this size, so that a file of single bytes does not make a node for each.
constexpr size_t kPieceBytes = 1 << 20;

}  // namespace

size_t WriteWindow::ready_bytes() const {
  uint64_t reached = start_;
  for (const auto& [offset, bytes] : extents_) {
    if (offset > reached) break;
    reached = offset + bytes.size();
  }
  return reached - start_;
}

// Puts `data`, which overlaps nothing, at `offset`. `behind` is the first extent after it.
void WriteWindow::Append(Extents::iterator behind, uint64_t offset, std::span<const std::byte> data) {
  held_ += data.size();
  if (behind != extents_.begin()) {
    auto& [before, bytes] = *std::prev(behind);
    if (before + bytes.size() == offset && bytes.size() + data.size() <= kPieceBytes) {
      if (bytes.capacity() < bytes.size() + data.size()) bytes.reserve(std::max(bytes.size() * 2, size_t{64} << 10));
      bytes.insert(bytes.end(), data.begin(), data.end());
      return;
    }
  }
  extents_.emplace_hint(behind, offset, std::vector<std::byte>(data.begin(), data.end()));
}

Status WriteWindow::Put(uint64_t offset, std::span<const std::byte> data) {
  if (data.empty()) return Status();
  if (offset < start_) return InvalidArgumentError(fmt::format("bytes at {} are sent already", offset));
  end_ = std::max(end_, offset + data.size());
  while (!data.empty()) {
    auto behind = extents_.upper_bound(offset);
    if (behind != extents_.begin()) {
      auto& [before, bytes] = *std::prev(behind);
      if (before + bytes.size() > offset) {  // overwrite what is there
        const size_t at = offset - before;
        const size_t count = std::min(data.size(), bytes.size() - at);
        std::memcpy(bytes.data() + at, data.data(), count);
        offset += count;
        data = data.subspan(count);
        continue;
      }
    }
    const size_t room =
        behind == extents_.end() ? data.size() : std::min<uint64_t>(data.size(), behind->first - offset);
    Append(behind, offset, data.first(room));
    offset += room;
    data = data.subspan(room);
  }
  return Status();
}

std::span<const std::byte> WriteWindow::Front(size_t max_bytes) const {
  if (extents_.empty() || extents_.begin()->first > start_) return {};
  const std::vector<std::byte>& bytes = extents_.begin()->second;
  return std::span(bytes).subspan(popped_, std::min(max_bytes, bytes.size() - popped_));
}

void WriteWindow::Pop(size_t count) {
  while (count > 0) {
    CHECK(!extents_.empty() && extents_.begin()->first <= start_);
    const size_t left = extents_.begin()->second.size() - popped_;
    const size_t taken = std::min(count, left);
    popped_ += taken;
    start_ += taken;
    held_ -= taken;
    count -= taken;
    if (taken == left) {
      extents_.erase(extents_.begin());
      popped_ = 0;
    }
  }
}

uint64_t WriteWindow::SkipHole(uint64_t offset) {
  CHECK(Front(1).empty());
  const uint64_t next = extents_.empty() ? offset : std::min(offset, extents_.begin()->first);
  if (next <= start_) return 0;
  const uint64_t skipped = next - start_;
  start_ = next;
  end_ = std::max(end_, start_);
  return skipped;
}

void WriteWindow::CopyTo(uint64_t offset, std::span<std::byte> out) const {
  const uint64_t end = offset + out.size();
  for (const auto& [place, bytes] : extents_) {
    const uint64_t from = std::max({offset, place, start_});
    const uint64_t to = std::min(end, place + bytes.size());
    if (from < to) std::memcpy(out.data() + (from - offset), bytes.data() + (from - place), to - from);
  }
}

void WriteWindow::Cut(uint64_t size) {
  CHECK(size >= start_);
  while (!extents_.empty()) {
    auto last = std::prev(extents_.end());
    if (last->first + last->second.size() <= size) break;
    const uint64_t kept_from = std::max(last->first, start_);
    if (last->first >= size || kept_from >= size) {
      held_ -= last->first + last->second.size() - kept_from;
      if (last == extents_.begin()) popped_ = 0;
      extents_.erase(last);
      continue;
    }
    held_ -= last->first + last->second.size() - size;
    last->second.resize(size - last->first);
  }
  end_ = size;
}

}  // namespace paceline::fuse_hdfs
