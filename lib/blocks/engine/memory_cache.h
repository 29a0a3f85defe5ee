// The chunks that were used last, decoded and checked, in memory: most reads are a few KiB of a chunk that a neighbour
// has just read, and neither the disk nor the hash should be paid for each. Bounded; thread-safe; never blocks.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>

#include "lib/base/mutex.h"
#include "lib/blocks/engine/fetch_queue.h"

namespace paceline::blocks {

class MemoryCache {
 public:
  explicit MemoryCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Null when it is not there. The bytes stay valid as long as the pointer is held.
  std::shared_ptr<const std::string> Find(ChunkId id) EXCLUDES(mutex_);
  void Put(ChunkId id, std::shared_ptr<const std::string> content) EXCLUDES(mutex_);
  void ForgetLayer(uint32_t layer) EXCLUDES(mutex_);

 private:
  struct Entry {
    ChunkId id;
    std::shared_ptr<const std::string> content;
  };

  const size_t max_bytes_;
  Mutex mutex_;
  std::list<Entry> entries_ GUARDED_BY(mutex_);  // used last in front
  std::map<ChunkId, std::list<Entry>::iterator> by_id_ GUARDED_BY(mutex_);
  size_t bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline::blocks
