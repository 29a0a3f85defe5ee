// The decisions of the parallel read path, apart from doing them: which ranges, how far ahead, which replica, when a
// second one is asked. Pure, table-tested; used by FetchPool and HdfsReader. ReadWindow is not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/hdfs/block.h"
#include "lib/hdfs/file_system.h"

namespace paceline::hdfs {

// The piece of a file that one request to a DataNode brings: inside of one block, on a grid of `unit` bytes that starts
// anew with each block.
//   ranges that [offset, offset+length) touches, in order; blocks must be sorted by offset and without gaps.
std::vector<ByteRange> PlanRanges(std::span<const LocatedBlock> blocks, ByteRange wanted, uint64_t unit);

// The block that holds `offset`; null when there is none.
const LocatedBlock* FindBlock(std::span<const LocatedBlock> blocks, uint64_t offset);

struct ReplicaView {
  int in_flight = 0;        // our requests to this DataNode, over all files
  bool is_dead = false;     // did not answer a short while ago
  bool has_failed = false;  // for this very range
  bool is_asked = false;    // for this very range, right now
  bool is_decommissioned = false;
};

// The replica to ask next: the one with the fewest requests in flight, the earlier one (nearer, as the NameNode sorts)
// among equals; a dead one only when there is no other. Nothing when every one has failed, is asked, or has `cap`
// requests.
std::optional<size_t> ChooseReplica(std::span<const ReplicaView> replicas, int cap);

// How long a range may take before a second replica is asked for it: three times what ranges take on the average, at
// least half a second and at most three; two seconds while nothing is known (average zero).
Duration HedgeAfter(Duration average);

// How long to wait before the replicas of a range are asked once more, after all of them have failed `rounds` times.
// Nothing when it is time to give up.
std::optional<Duration> WaitBeforeRound(int rounds);

// Watches the reads of one open file and says how far ahead to fetch. Starts small, doubles while reads go forward,
// falls back on a jump.
class ReadWindow {
 public:
  struct Limits {
    uint64_t unit = 4 << 20;
    uint64_t max_bytes = 256 << 20;
  };
  explicit ReadWindow(Limits limits) : limits_(limits) {}

  // After a read of [offset, offset+length) was asked for. The number of bytes behind its end that should be on their
  // way: 0 for reads that jump about.
  uint64_t OnRead(uint64_t offset, uint64_t length);

  // The read is still waiting for its bytes: the DataNodes that are asked now are too slow, and a wider window asks
  // more of them. The same as of OnRead, and 0 likewise.
  uint64_t OnWait();

 private:
  const Limits limits_;
  uint64_t window_ = 0;
  uint64_t frontier_ = 0;  // the end of the furthest read of this streak
  uint64_t since_growth_ = 0;
  bool has_read_ = false;
  int forward_reads_ = 0;  // since the last jump
};

}  // namespace paceline::hdfs
