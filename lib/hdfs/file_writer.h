// Writes one HDFS file through one pipeline at a time, as stock clients do, with recovery of a broken pipeline: for
// appending, and where the parallel layout is not allowed. Internal to lib/hdfs. Used by one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "lib/base/mutex.h"
#include "lib/hdfs/file_system.h"
#include "lib/hdfs/write_context.h"

namespace paceline::hdfs {

class FileWriter final : public Writer {
 public:
  // What Close and Abandon do with the name.
  struct Naming {
    std::string final_path;  // empty: the file keeps its name, and Abandon leaves it (append)
    CreateMode mode = CreateMode::kOverwrite;
    std::stop_token stop;  // CreateOptions::stop
  };

  // A file that was just created, or one to append to.
  static Result<std::unique_ptr<FileWriter>> Make(std::shared_ptr<WriteContext> context, NameNode::Appended opened,
                                                  Naming naming, Deadline deadline);
  ~FileWriter() override;

  Status Write(std::span<const std::byte> data, Deadline deadline) override;
  Status Flush(Deadline deadline) override { return FlushAs(BlockWriter::Durability::kMemory, deadline); }
  Status Sync(Deadline deadline) override { return FlushAs(BlockWriter::Durability::kDisk, deadline); }
  Status Close(Deadline deadline) override;
  void Abandon() override;
  uint64_t position_bytes() const override { return position_; }

 private:
  FileWriter(std::shared_ptr<WriteContext> context, OpenFile file, Naming naming);

  Status FlushAs(BlockWriter::Durability durability, Deadline deadline);
  Status Usable() const;
  Status Fail(Status status) { return failure_ = std::move(status); }
  Status Stopped() const { return CancelledError("write " + file_.path + ": stopped"); }
  Status OpenAppended(const LocatedBlock& last, Deadline deadline);
  Status NextBlock(Deadline deadline);
  Status FinishBlock(Deadline deadline);
  // Runs `step` on the pipeline, and again on a recovered one when it broke.
  template <typename Step>
  Status WithRecovery(Step step, Deadline deadline, bool is_closing = false);
  // Replaces the broken pipeline by one over the nodes that are left. `is_closing`: only the end of the block is
  // missing.
  Status Recover(bool is_closing, Deadline deadline);
  Status OpenRecovered(LocatedBlock block, std::vector<DataNode> lost, bool is_closing, Deadline deadline);
  // Takes the DataNodes that `failure` is about out of `block`, into `*lost`; when that is all of them, waits for one
  // to come back: a pause of this machine or of the network looks the same.
  Status DropLost(const PipelineFailure& failure, LocatedBlock* block, std::vector<DataNode>* lost, Deadline deadline);
  Status Replace(LocatedBlock* block, const std::vector<DataNode>& lost, Deadline deadline);
  // Makes `block` the pipeline in use.
  void Use(std::unique_ptr<BlockWriter> block) EXCLUDES(mutex_);
  void Abort() EXCLUDES(mutex_);

  const std::shared_ptr<WriteContext> context_;
  const OpenFile file_;  // with the stop of naming_
  const Naming naming_;
  std::optional<LeaseHold> lease_;
  std::unique_ptr<BlockWriter> block_;
  // The DataNode that the present block was asked to go to: files that are written side by side, stripes above all, get
  // each another one.
  std::string favored_;
  std::optional<ExtendedBlock> finished_;  // the block before, with its final length
  bool block_is_known_ = false;            // the NameNode was told of the block's length once
  bool block_is_appended_ = false;         // its first bytes were in a closed file before
  uint64_t position_ = 0;
  bool is_closed_ = false;
  Status failure_;

  Mutex mutex_;
  BlockWriter* pipeline_ GUARDED_BY(mutex_) = nullptr;  // block_, for whoever stops the writer
  std::stop_callback<std::function<void()>> on_stop_;   // the last member: it ends before the others
};

}  // namespace paceline::hdfs
