// A map that holds at most so many entries and forgets the one that was not used for the longest time. For bookkeeping
// about objects of which there may be any number. Not thread-safe.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <utility>

namespace paceline::kube {

template <typename Key, typename Value>
class LruMap {
 public:
  // `capacity` >= 1.
  explicit LruMap(size_t capacity) : capacity_(capacity) {}

  // The value, now the most recently used; null when not there.
  Value* Find(const Key& key) {
    auto it = index_.find(key);
    if (it == index_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, it->second);
    return &it->second->second;
  }

  // Adds a key that is not there yet, in place of the least recently used one when full. Pointers to other values stay
  // valid, but to that one.
  Value* Insert(const Key& key, Value value) {
    if (index_.size() >= capacity_) {
      index_.erase(entries_.back().first);
      entries_.pop_back();
    }
    entries_.emplace_front(key, std::move(value));
    index_[key] = entries_.begin();
    return &entries_.front().second;
  }

  void Erase(const Key& key) {
    auto it = index_.find(key);
    if (it == index_.end()) return;
    entries_.erase(it->second);
    index_.erase(it);
  }

  // Most recently used first.
  std::list<std::pair<Key, Value>>& entries() { return entries_; }
  size_t size() const { return index_.size(); }

 private:
  size_t capacity_;
  std::list<std::pair<Key, Value>> entries_;
  std::map<Key, typename std::list<std::pair<Key, Value>>::iterator> index_;
};

}  // namespace paceline::kube
