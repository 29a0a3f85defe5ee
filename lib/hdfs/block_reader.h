// Reads a range of one block from one DataNode, every chunk verified. Internal to lib/hdfs; the choice of the replica,
// retries and hedging are elsewhere (range_fetcher.h). Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include "lib/hdfs/block.h"
#include "lib/hdfs/data_node_client.h"
#include "lib/hdfs/file_system.h"

namespace paceline::hdfs {

// A read that another thread may watch and stop.
class ReadControl {
 public:
  // Ends the read at once with kCancelled; also one that is yet to begin.
  void Cancel();
  bool is_cancelled() const { return is_cancelled_; }
  size_t bytes_read() const { return bytes_read_; }

 private:
  friend class BlockReadCall;
  void Attach(ByteStream* stream);
  void Detach();

  std::atomic<bool> is_cancelled_{false};
  std::atomic<size_t> bytes_read_{0};
  Mutex mutex_;
  ByteStream* stream_ GUARDED_BY(mutex_) = nullptr;
};

// Fills `out` with the bytes of `block` from `offset` (in the block) on; the range must lie inside the block. On
// failure the contents of `out` are undefined.
//   kDataLoss           a chunk does not fit its checksum: this replica is corrupt
//   kPermissionDenied   the block's token is not accepted (any more): ask for new locations
//   kAborted            the DataNode refuses, as the message repeats, or talks nonsense: it is there, this replica is
//   not kUnavailable        no connection, or a cut one kDeadlineExceeded   no bytes for the silence limit, or the
//   deadline passed kCancelled          by `control`
Status ReadBlockRange(DataNodeClient& client, const DataNode& node, const LocatedBlock& block, uint64_t offset,
                      std::span<std::byte> out, ReadControl& control, Deadline deadline);

}  // namespace paceline::hdfs
