#include "lib/hdfs/file_blocks.h"

#include "lib/hdfs/read_plan.h"

namespace paceline::hdfs {
namespace {

constexpr Duration kRefreshPause = std::chrono::milliseconds(100);
constexpr uint64_t kRefreshBytes = 1 << 30;  // neighbours of a lost replica are often lost with it

}  // namespace

std::shared_ptr<const std::vector<LocatedBlock>> FileBlocks::blocks() const {
  MutexLock lock(mutex_);
  return blocks_;
}

Status FileBlocks::Refresh(NameNode& namenode, uint64_t offset, Deadline deadline) {
  {
    MutexLock lock(mutex_);
    if (clock_.Now() - refreshed_ < kRefreshPause) return Status();
    refreshed_ = clock_.Now();
  }
  const ByteRange range = select_ == nullptr ? ByteRange{offset, kRefreshBytes} : ByteRange{0, INT64_MAX};
  ASSIGN_OR_RETURN(LocatedBlocks fresh, namenode.GetBlockLocations(path_, range, deadline));
  if (select_ != nullptr) fresh.blocks = select_(fresh.blocks);
  auto updated = std::make_shared<std::vector<LocatedBlock>>(*blocks());
  for (LocatedBlock& block : *updated) {
    for (const LocatedBlock& found : fresh.blocks) {
      // Another block id at this place means that the file was written anew: the old replicas are what we can still
      // read.
      if (found.block.block_id != block.block.block_id) continue;
      block.nodes = found.nodes;
      block.storage_ids = found.storage_ids;
      block.storage_types = found.storage_types;
      block.token = found.token;
      block.is_corrupt = found.is_corrupt;
    }
  }
  MutexLock lock(mutex_);
  blocks_ = std::move(updated);
  return Status();
}

}  // namespace paceline::hdfs
