// Bytes of one file that were written but not yet sent: a window that starts where sending has got to. Writes land in
// any order and may overwrite each other; they leave at the front, in order. This is what lets the mount take O_DIRECT
// writers, small headers patched at the end, and sparse copies, although HDFS takes bytes only in sequence. Pure; not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "lib/base/result.h"

namespace paceline::fuse_hdfs {

class WriteWindow {
 public:
  explicit WriteWindow(uint64_t start = 0) : start_(start), end_(start) {}

  // Offset of the first byte that is not sent.
  uint64_t start() const { return start_; }
  // Behind the last byte written so far; at least start().
  uint64_t end() const { return end_; }
  // Memory held.
  size_t held_bytes() const { return held_; }
  bool has_hole() const { return ready_bytes() != held_; }
  // Length of the run that begins at start().
  size_t ready_bytes() const;

  // Takes a copy. kInvalidArgument when `offset` lies before start(): those bytes are gone.
  Status Put(uint64_t offset, std::span<const std::byte> data);

  // The first bytes of the run at start(), in one piece of at most `max_bytes` (empty when there are none). Valid until
  // the next call of another method.
  std::span<const std::byte> Front(size_t max_bytes) const;
  // Drops `count` bytes of the run at start(): they were sent.
  void Pop(size_t count);

  // Moves start() over a hole up to `offset` at most, and at most to the first byte that is there. The caller sends
  // zeros in place of what is skipped. Returns how many bytes that is; only with ready_bytes() == 0.
  uint64_t SkipHole(uint64_t offset);

  // Copies what is held of [offset, offset + out.size()) over `out`; bytes that are not held stay as they are in `out`.
  void CopyTo(uint64_t offset, std::span<std::byte> out) const;

  // Forgets bytes from `size` on. `size` is at least start().
  void Cut(uint64_t size);

 private:
  using Extents = std::map<uint64_t, std::vector<std::byte>>;

  void Append(Extents::iterator behind, uint64_t offset, std::span<const std::byte> data);

  uint64_t start_, end_;
  size_t held_ = 0;
  size_t popped_ = 0;  // bytes of the first extent that are gone already; its key stays where it began
  Extents extents_;    // by offset, not overlapping
};

}  // namespace paceline::fuse_hdfs
