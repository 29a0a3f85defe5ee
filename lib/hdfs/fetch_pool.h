// Brings ranges of files from DataNodes: many at once, spread over replicas so that no DataNode gets more than its
// share, slow ones asked for twice. One pool per filesystem. Internal to lib/hdfs; used by HdfsReader. Thread-safe.
#pragma once

#include <atomic>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/hdfs/block_reader.h"
#include "lib/hdfs/file_blocks.h"
#include "lib/hdfs/read_plan.h"

namespace paceline::hdfs {

// Memory of one range. Not zeroed: every byte is written before it is read.
struct RangeBuffer {
  std::unique_ptr<std::byte[]> bytes;
  size_t size = 0;
};

class FetchPool;

// One range on its way or there. Made by FetchPool::Start.
class RangeFetch {
 public:
  const ByteRange range;
  // After FetchPool::Wait has returned ok.
  const std::byte* data() const { return buffer_.bytes.get(); }
  ~RangeFetch();

 private:
  friend class FetchPool;
  struct Attempt {
    DataNode node;
    ReadControl control;
    TimePoint started;
  };
  RangeFetch(FetchPool& pool, std::shared_ptr<FileBlocks> file, ByteRange wanted)
      : range(wanted), pool_(pool), file_(std::move(file)) {}

  FetchPool& pool_;
  const std::shared_ptr<FileBlocks> file_;
  // The rest is guarded by the pool's mutex until the fetch is done, and constant from then on.
  bool is_done_ = false;
  Status status_;
  RangeBuffer buffer_;
  std::set<std::string> failed_nodes_;  // keys of DataNodes that could not give this range in this round
  int rounds_ = 0;
  TimePoint not_before_{};
  std::list<std::shared_ptr<Attempt>> attempts_;
};

class FetchPool {
 public:
  struct Options {
    uint64_t budget_bytes = 512 << 20;
    uint64_t unit_bytes = 4 << 20;
    int lanes_per_datanode = 4;
    int threads = 32;
  };
  struct Counters {
    uint64_t bytes = 0, ranges = 0, hedges = 0, failed_attempts = 0, corrupt_replicas = 0, peak_bytes = 0;
  };

  FetchPool(Options options, DataNodeClient& datanodes, NameNode& namenode, const Clock& clock);
  // Every RangeFetch must be gone.
  ~FetchPool();

  // Ahead of need: nothing (null) when the memory budget is used up. Needed: always started, and before all that is
  // ahead of need. `range` must lie inside of one block of `file`.
  enum class Urgency { kAhead, kNeeded };
  std::shared_ptr<RangeFetch> Start(std::shared_ptr<FileBlocks> file, ByteRange range, Urgency urgency);

  // Until the range is there. kDeadlineExceeded leaves it on its way; other failures are final for this fetch.
  Status Wait(RangeFetch& fetch, Deadline deadline);
  bool IsDone(const RangeFetch& fetch) const;

  const Clock& clock() const { return clock_; }
  uint64_t unit_bytes() const { return options_.unit_bytes; }
  uint64_t budget_bytes() const { return options_.budget_bytes; }
  Counters counters() const;

 private:
  friend class RangeFetch;
  struct Work {
    std::shared_ptr<RangeFetch> fetch;
    std::shared_ptr<RangeFetch::Attempt> attempt;
    LocatedBlock block;
    bool is_out_of_replicas = false;
  };

  void Run(std::stop_token stop);
  // The next thing to do, or nothing; then `*wake` is when to look again.
  std::optional<Work> PickWork(TimePoint* wake) REQUIRES(mutex_);
  std::optional<Work> PickQueued(std::deque<std::weak_ptr<RangeFetch>>& queue, TimePoint* wake) REQUIRES(mutex_);
  std::optional<Work> PickHedge(TimePoint* wake) REQUIRES(mutex_);
  std::optional<Work> TryAttempt(const std::shared_ptr<RangeFetch>& fetch, bool* has_candidates) REQUIRES(mutex_);
  void Attempt(Work& work);
  void Succeed(Work& work, RangeBuffer buffer, Duration took) EXCLUDES(mutex_);
  void Fail(Work& work, const Status& status) EXCLUDES(mutex_);
  void NextRound(Work& work) EXCLUDES(mutex_);
  void Finish(RangeFetch& fetch, Status status) REQUIRES(mutex_);
  RangeBuffer TakeBuffer(size_t size);
  void ReturnBuffer(RangeBuffer buffer);
  void Release(RangeFetch& fetch);

  const Options options_;
  DataNodeClient& datanodes_;
  NameNode& namenode_;
  const Clock& clock_;

  mutable Mutex mutex_;
  CondVar work_;
  CondVar done_;
  std::deque<std::weak_ptr<RangeFetch>> needed_ GUARDED_BY(mutex_), ahead_ GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<RangeFetch>> running_ GUARDED_BY(mutex_);
  std::map<std::string, int> in_flight_ GUARDED_BY(mutex_);  // by DataNode
  Duration average_ GUARDED_BY(mutex_) = Duration::zero();   // of a whole unit
  Counters counters_ GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_ GUARDED_BY(mutex_);
  int idle_threads_ GUARDED_BY(mutex_) = 0;
  std::stop_source stop_;

  // Apart from the rest, because a RangeFetch may end while mutex_ is held.
  Mutex buffers_mutex_;
  std::vector<RangeBuffer> free_buffers_ GUARDED_BY(buffers_mutex_);
  std::atomic<uint64_t> reserved_bytes_{0};
};

}  // namespace paceline::hdfs
