#include "lib/blocks/engine/memory_cache.h"

#include <utility>

namespace paceline::blocks {

std::shared_ptr<const std::string> MemoryCache::Find(ChunkId id) {
  MutexLock lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->content;
}

void MemoryCache::Put(ChunkId id, std::shared_ptr<const std::string> content) {
  if (content->size() > max_bytes_) return;
  std::list<Entry> dropped;  // freed after the lock
  MutexLock lock(mutex_);
  if (by_id_.contains(id)) return;
  bytes_ += content->size();
  entries_.push_front({id, std::move(content)});
  by_id_[id] = entries_.begin();
  while (bytes_ > max_bytes_) {
    bytes_ -= entries_.back().content->size();
    by_id_.erase(entries_.back().id);
    dropped.splice(dropped.begin(), entries_, std::prev(entries_.end()));
  }
}

void MemoryCache::ForgetLayer(uint32_t layer) {
  MutexLock lock(mutex_);
  const auto first = by_id_.lower_bound({layer, 0});
  auto last = first;
  for (; last != by_id_.end() && last->first.layer == layer; ++last) {
    bytes_ -= last->second->content->size();
    entries_.erase(last->second);
  }
  by_id_.erase(first, last);
}

}  // namespace paceline::blocks
