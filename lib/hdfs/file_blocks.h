// Where the blocks of one open file lie, fetched again when the replicas that were known are gone. Internal to
// lib/hdfs; shared by the reader of a file and the ranges that it has on their way. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "lib/base/mutex.h"
#include "lib/hdfs/block.h"
#include "lib/hdfs/name_node.h"

namespace paceline::hdfs {

class FileBlocks {
 public:
  // What of the file's blocks, all of them, this is about: for erasure-coded files, whose units are blocks of their
  // own.
  using Select = std::function<std::vector<LocatedBlock>(std::span<const LocatedBlock>)>;
  // `blocks` as the NameNode gave them, sorted, the last block under construction included with its visible length; or
  // what `select` makes of them.
  FileBlocks(std::string path, std::vector<LocatedBlock> blocks, const Clock& clock, Select select = nullptr)
      : path_(std::move(path)),
        clock_(clock),
        select_(std::move(select)),
        blocks_(std::make_shared<const std::vector<LocatedBlock>>(std::move(blocks))) {}

  const std::string& path() const { return path_; }
  std::shared_ptr<const std::vector<LocatedBlock>> blocks() const;

  // Asks the NameNode for the block at `offset` again, unless that was done less than 100 ms ago. Blocks keep their
  // offset and length; nodes and tokens change. kNotFound when the file was deleted.
  Status Refresh(NameNode& namenode, uint64_t offset, Deadline deadline);

 private:
  const std::string path_;
  const Clock& clock_;
  const Select select_;
  mutable Mutex mutex_;
  std::shared_ptr<const std::vector<LocatedBlock>> blocks_ GUARDED_BY(mutex_);
  TimePoint refreshed_ GUARDED_BY(mutex_){};
};

}  // namespace paceline::hdfs
