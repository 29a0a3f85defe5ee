#include "fuse-hdfs/status_cache.h"

namespace paceline::fuse_hdfs {

std::optional<StatusCache::Answer> StatusCache::Find(const std::string& path) {
  const TimePoint now = clock_.Now();
  MutexLock lock(mutex_);
  const auto found = by_path_.find(path);
  if (found == by_path_.end()) return std::nullopt;
  if (found->second->until <= now) {
    items_.erase(found->second);
    by_path_.erase(found);
    return std::nullopt;
  }
  items_.splice(items_.begin(), items_, found->second);
  return found->second->answer;
}

uint64_t StatusCache::generation() const {
  MutexLock lock(mutex_);
  return generation_;
}

void StatusCache::Remember(const std::string& path, Answer answer, uint64_t generation) {
  if (lifetime_ <= Duration::zero() || max_entries_ == 0) return;
  const TimePoint until = clock_.Now() + lifetime_;
  MutexLock lock(mutex_);
  if (generation != generation_) return;
  const auto found = by_path_.find(path);
  if (found != by_path_.end()) {
    found->second->answer = std::move(answer);
    found->second->until = until;
    items_.splice(items_.begin(), items_, found->second);
    return;
  }
  if (items_.size() >= max_entries_) {
    by_path_.erase(items_.back().path);
    items_.pop_back();
  }
  items_.push_front(Item{path, std::move(answer), until});
  by_path_[path] = items_.begin();
}

void StatusCache::Forget(const std::string& path) {
  MutexLock lock(mutex_);
  ++generation_;
  const auto found = by_path_.find(path);
  if (found == by_path_.end()) return;
  items_.erase(found->second);
  by_path_.erase(found);
}

void StatusCache::ForgetTree(const std::string& path) {
  const std::string below = path == "/" ? path : path + "/";
  MutexLock lock(mutex_);
  ++generation_;
  for (auto item = items_.begin(); item != items_.end();) {
    const bool is_inside = item->path == path || item->path.compare(0, below.size(), below) == 0;
    if (!is_inside) {
      ++item;
      continue;
    }
    by_path_.erase(item->path);
    item = items_.erase(item);
  }
}

void StatusCache::Clear() {
  MutexLock lock(mutex_);
  ++generation_;
  items_.clear();
  by_path_.clear();
}

size_t StatusCache::size() const {
  MutexLock lock(mutex_);
  return items_.size();
}

}  // namespace paceline::fuse_hdfs
