// Writes one file through many pipelines at once and leaves one ordinary HDFS file: docs/formats/hdfs-parts.md.
// Internal to lib/hdfs. Used by one thread at a time; each segment is sent by a thread of its own.
//
// A segment stays in memory until all its replicas are final, so a broken pipeline is answered by writing the segment
// again elsewhere.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lib/hdfs/file_system.h"
#include "lib/hdfs/part_names.h"
#include "lib/hdfs/write_context.h"

namespace paceline::hdfs {

class ParallelWriter final : public Writer {
 public:
  struct Target {
    std::string path;
    CreateOptions options;
    WriterId id;
  };

  // `file` is the hidden target, created and still empty.
  ParallelWriter(std::shared_ptr<WriteContext> context, OpenFile file, Target target);
  ~ParallelWriter() override;

  Status Write(std::span<const std::byte> data, Deadline deadline) override;
  Status Flush(Deadline deadline) override { return FlushAs(BlockWriter::Durability::kMemory, deadline); }
  Status Sync(Deadline deadline) override { return FlushAs(BlockWriter::Durability::kDisk, deadline); }
  Status Close(Deadline deadline) override;
  void Abandon() override;
  uint64_t position_bytes() const override { return position_; }

 private:
  struct Segment {
    uint32_t number = 0;
    std::string data;
    BlockWriter::Durability durability = BlockWriter::Durability::kMemory;
    std::string path;                    // of its part; the first segment goes into the target itself
    std::optional<ExtendedBlock> block;  // when it is done
    bool is_done = false;
    Status status;
    BlockWriter* pipeline = nullptr;  // in use now
    std::jthread thread;
  };

  Status Usable() const;
  Status Fail(Status status) { return failure_ = std::move(status); }
  Status FlushAs(BlockWriter::Durability durability, Deadline deadline);
  // Memory for `bytes` more of the segment that is being filled.
  Status TakeMemory(uint64_t bytes, Deadline deadline);
  // Sends the segment that is being filled, when there is a free pipeline.
  Status Dispatch(BlockWriter::Durability durability, Deadline deadline);
  Status SendSegment(Segment& segment, Deadline deadline);
  void RunSegment(Segment& segment);
  // Joins the threads of segments that are done. Their first failure.
  Status Reap();
  Status AwaitInFlight(size_t at_most, Deadline deadline);
  // Ends what is under way, from any thread.
  void Stop() EXCLUDES(mutex_);
  Status Stopped() const { return CancelledError("write " + target_.path + ": stopped"); }
  Status Join(Deadline deadline);
  // Where the cluster refuses to concat: the parts are read back and written behind the target.
  Status JoinByCopy(Deadline deadline);

  const std::shared_ptr<WriteContext> context_;
  const OpenFile file_;
  const Target target_;
  std::optional<LeaseHold> lease_;
  std::string filling_;
  uint32_t next_number_ = 0;
  std::vector<std::string> parts_;  // paths in order, without the target
  // Of the target, which is completed by Close and not before: its lease tells others that this writer lives.
  std::optional<ExtendedBlock> first_block_;
  uint64_t position_ = 0;
  bool is_closed_ = false;
  Status failure_;
  std::stop_source stop_;

  Mutex mutex_;
  CondVar changed_;
  // Changed by the writer's thread, under mutex_; so are the flags inside.
  std::deque<std::unique_ptr<Segment>> in_flight_;
  std::stop_callback<std::function<void()>> on_stop_;  // the last member: it ends before the others
};

}  // namespace paceline::hdfs
