// Guesses what a reader wants next: one detector per open file. Sequential reading doubles the distance that is fetched
// ahead, from a small start to a limit; a jump starts anew, and a few jumps remember several places, since loaders
// read one file from several threads. Pure; not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "lib/hdfs/file_system.h"

namespace paceline::fuse_hdfs {

struct ReadAheadRules {
  uint64_t first_bytes = 8 << 20;
  uint64_t max_bytes = 128 << 20;  // 0: off
};

class ReadAhead {
 public:
  explicit ReadAhead(const ReadAheadRules& rules) : rules_(rules) {}

  // A read of `range` was asked for. The range to fetch in the background, of length 0 when there is nothing to do.
  hdfs::ByteRange Next(hdfs::ByteRange range, uint64_t file_bytes);

 private:
  struct Stream {
    uint64_t next = 0;      // where a sequential reader goes on
    uint64_t fetched = 0;   // asked for up to here
    uint64_t distance = 0;  // 0: not used yet
    uint64_t last_use = 0;
    int hits = 0;
  };
  Stream& StreamAt(hdfs::ByteRange range);

  const ReadAheadRules rules_;
  uint64_t uses_ = 0;
  std::array<Stream, 4> streams_;
};

}  // namespace paceline::fuse_hdfs
