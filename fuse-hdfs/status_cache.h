// What is known of paths, for a short while: stat answers, listings' entries, and names that are not there. Keeps
// `ls -l` and the kernel's lookups from asking the NameNode about each entry. Bounded: the entry that was longest
// unused goes first. Own changes are told by Forget; changes by others are seen after the lifetime. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/hdfs/file_system.h"

namespace paceline::fuse_hdfs {

class StatusCache {
 public:
  StatusCache(const Clock& clock, Duration lifetime, size_t max_entries)
      : clock_(clock), lifetime_(lifetime), max_entries_(max_entries) {}

  struct Answer {
    bool exists = false;
    hdfs::FileStatus status;  // when it exists
  };
  // Nothing when not known, or no longer.
  std::optional<Answer> Find(const std::string& path) EXCLUDES(mutex_);

  // A number to take before asking the server and to give to Remember, so that an answer from before a change of our
  // own is not remembered after it.
  uint64_t generation() const EXCLUDES(mutex_);
  void Remember(const std::string& path, Answer answer, uint64_t generation) EXCLUDES(mutex_);

  // The path changed.
  void Forget(const std::string& path) EXCLUDES(mutex_);
  // The path and all below it.
  void ForgetTree(const std::string& path) EXCLUDES(mutex_);
  void Clear() EXCLUDES(mutex_);

  size_t size() const EXCLUDES(mutex_);

 private:
  struct Item {
    std::string path;
    Answer answer;
    TimePoint until;
  };
  using Items = std::list<Item>;

  const Clock& clock_;
  const Duration lifetime_;
  const size_t max_entries_;
  mutable Mutex mutex_;
  uint64_t generation_ GUARDED_BY(mutex_) = 0;
  Items items_ GUARDED_BY(mutex_);  // the most recently used in front
  std::unordered_map<std::string, Items::iterator> by_path_ GUARDED_BY(mutex_);
};

}  // namespace paceline::fuse_hdfs
