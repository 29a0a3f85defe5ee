// What all writers of one filesystem share: the clients, the memory budget, who gets the next block, and the lease that
// keeps open files open. Internal to lib/hdfs. Each class here is thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lib/hdfs/block_writer.h"
#include "lib/hdfs/byte_budget.h"
#include "lib/hdfs/name_node.h"
#include "lib/hdfs/write_plan.h"

namespace paceline::hdfs {

// What is left of a file that nobody wants any more is cleared away for so long.
inline constexpr Duration kAbandonLimit = std::chrono::seconds(5);

// Deals blocks round: the NameNode is asked to put each new block on the DataNode on which the fewest of our pipelines
// are at work.
class BlockSpread {
 public:
  BlockSpread(NameNode& namenode, const Clock& clock) : namenode_(namenode), clock_(clock) {}
  // "ip:port" of the DataNode to favour; empty when the list cannot be had, which only costs balance.
  std::string Acquire(Deadline deadline);
  void Release(const std::string& node);

 private:
  NameNode& namenode_;
  const Clock& clock_;
  Mutex mutex_;
  std::map<std::string, int> at_work_ GUARDED_BY(mutex_);
  std::vector<std::string> nodes_ GUARDED_BY(mutex_);
  TimePoint listed_ GUARDED_BY(mutex_){};
  size_t next_ GUARDED_BY(mutex_) = 0;
};

// Renews the lease of a client while it has files open for writing, by a thread that exists only then.
class LeaseRenewer {
 public:
  LeaseRenewer(NameNode& namenode, const Clock& clock) : namenode_(namenode), clock_(clock) {}
  void AddFile();
  void RemoveFile();

 private:
  void Run(std::stop_token stop);

  NameNode& namenode_;
  const Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  int files_ GUARDED_BY(mutex_) = 0;
  std::jthread thread_ GUARDED_BY(mutex_);
};

// Holds the lease renewed for as long as it lives.
class LeaseHold {
 public:
  explicit LeaseHold(LeaseRenewer& renewer) : renewer_(renewer) { renewer_.AddFile(); }
  ~LeaseHold() { renewer_.RemoveFile(); }
  LeaseHold(const LeaseHold&) = delete;
  LeaseHold& operator=(const LeaseHold&) = delete;

 private:
  LeaseRenewer& renewer_;
};

struct WriteContext {
  NameNode& namenode;
  DataNodeClient& datanodes;
  const Clock& clock;
  ByteBudget& budget;
  BlockSpread& spread;
  LeaseRenewer& leases;
  ServerDefaults defaults;
  ReplacementRules replacement;
  int pipelines = 8;
  uint64_t segment_bytes = 32 << 20;
  std::shared_ptr<std::atomic<bool>> is_concat_refused;  // by this cluster, as was seen once
  std::function<Result<std::unique_ptr<Reader>>(const std::string&, Deadline)> open;

  PacketCutter::Options packets() const {
    return {.checksum = defaults.checksum,
            .chunk_bytes = defaults.bytes_per_checksum,
            .packet_bytes = 256 * defaults.bytes_per_checksum};
  }
};

// Writes `data` as the one block that is missing at the end of `file`, on other DataNodes when some fail, and returns
// it with its length. `previous` is the file's block before, if any. `stop` may be asked from any thread; `attach` is
// told of the pipeline in use, and of null when there is none, so that it can be aborted.
struct BlockJob {
  std::string_view data;
  std::optional<ExtendedBlock> previous;
  BlockWriter::Durability durability = BlockWriter::Durability::kMemory;
  std::stop_token stop;
  std::function<void(BlockWriter*)> attach = [](BlockWriter*) {};
};
Result<ExtendedBlock> WriteWholeBlock(WriteContext& context, const OpenFile& file, const BlockJob& job,
                                      Deadline deadline);

}  // namespace paceline::hdfs
