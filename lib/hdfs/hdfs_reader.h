// One open file of HDFS: turns reads into ranges that FetchPool brings, ahead of need while the reads go forward.
// Internal to lib/hdfs; made by HdfsFileSystem. Thread-safe.
#pragma once

#include <map>
#include <memory>

#include "lib/base/mutex.h"
#include "lib/hdfs/fetch_pool.h"
#include "lib/hdfs/file_blocks.h"
#include "lib/hdfs/file_system.h"
#include "lib/hdfs/read_plan.h"

namespace paceline::hdfs {

class HdfsReader final : public Reader {
 public:
  // `pool` is borrowed and outlives the reader.
  HdfsReader(FetchPool& pool, std::shared_ptr<FileBlocks> file, uint64_t length);

  uint64_t length_bytes() const override { return length_; }
  Result<size_t> Read(uint64_t offset, std::span<std::byte> out, Deadline deadline) override;
  void Prefetch(ByteRange range) override;

 private:
  struct Cached {
    std::shared_ptr<RangeFetch> fetch;
    uint64_t served_bytes = 0;
    uint64_t last_use = 0;
  };

  Status ReadByJumps(uint64_t offset, std::span<std::byte> out, Deadline deadline);
  Status ReadForward(uint64_t offset, std::span<std::byte> out, uint64_t ahead, Deadline deadline);
  // As far as the memory budget goes.
  void StartAhead(std::span<const ByteRange> ranges);
  // Until the range that holds `offset` is there; asks for more and more behind it meanwhile.
  Status WaitFor(RangeFetch& fetch, uint64_t offset, Deadline deadline);
  std::shared_ptr<RangeFetch> GetOrStart(ByteRange range, FetchPool::Urgency urgency);
  // After `bytes` of the range that starts at `start` were copied out: one that was read whole is not kept.
  void Consumed(uint64_t start, uint64_t bytes);
  void EvictBehind() REQUIRES(mutex_);

  FetchPool& pool_;
  const std::shared_ptr<FileBlocks> file_;
  const uint64_t length_;

  Mutex mutex_;
  ReadWindow window_ GUARDED_BY(mutex_);
  std::map<uint64_t, Cached> cache_ GUARDED_BY(mutex_);  // by the start of the range
  uint64_t uses_ GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline::hdfs
