// Loads files that somebody says will be read, before they are opened: the checkpoint from which a training program
// will start. Keeps an open reader for each of them, which brings its first ranges into the filesystem's memory budget;
// the mount's open takes that reader over. What nobody opens goes after a while. Used by MountFileSystem. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/hdfs/file_system.h"

namespace paceline::fuse_hdfs {

struct PrefetchRules {
  uint64_t budget_bytes = 256 << 20;         // loaded and not yet opened, over all files
  uint64_t step_bytes = 32 << 20;            // of one file before the next one's turn
  Duration hold = std::chrono::minutes(10);  // until a file that nobody opens is let go
  Duration open_limit = std::chrono::minutes(1);
  size_t max_files = 10000;
};

class Prefetcher {
 public:
  // `fs` and `clock` are borrowed. No thread runs before the first Add.
  Prefetcher(hdfs::FileSystem& fs, const Clock& clock, const PrefetchRules& rules);
  // Waits for an open that is under way.
  ~Prefetcher();

  struct Plan {
    size_t files = 0;
    uint64_t bytes = 0;  // of all of them, whatever the budget
  };
  // The file, or all files below the directory, will be read: those named first, first. Files that are known already
  // start their time anew. Blocks for the listings only. kNotFound; kResourceExhausted beyond `max_files`, with those
  // taken that fit.
  Result<Plan> Add(const std::string& path, Deadline deadline) EXCLUDES(mutex_);

  // The reader of `path` with what it has loaded, for whoever opens the file now; null when there is none, or when the
  // file is not what it was (`status` is what is known of it now). Does not block.
  std::unique_ptr<hdfs::Reader> Claim(const std::string& path, const hdfs::FileStatus& status) EXCLUDES(mutex_);

  void Clear() EXCLUDES(mutex_);

  struct Stats {
    size_t files = 0;            // known and not opened
    uint64_t asked_bytes = 0;    // of those
    uint64_t claimed_files = 0;  // since the start
    uint64_t expired_files = 0;  // nobody came
  };
  Stats stats() const EXCLUDES(mutex_);

 private:
  struct Entry {
    std::string path;
    uint64_t length_bytes = 0, file_id = 0;
    WallTime modified;
    std::unique_ptr<hdfs::Reader> reader;
    uint64_t asked_bytes = 0;
    TimePoint expires;
    bool is_opening = false;
    bool is_wanted = true;  // false: let go while it was being opened
  };
  using EntryPtr = std::shared_ptr<Entry>;

  Status Walk(const std::string& path, const hdfs::FileStatus& status, Deadline deadline, Plan* plan);
  void Take(const std::string& path, const hdfs::FileStatus& status) EXCLUDES(mutex_);
  void Run(std::stop_token stop);
  // The file whose turn it is; null when there is nothing to do before `*wake`. Moves what has expired to `expired`.
  EntryPtr PickWork(std::vector<EntryPtr>* expired, TimePoint* wake) REQUIRES(mutex_);
  void Drop(const EntryPtr& entry) REQUIRES(mutex_);
  void Open(const EntryPtr& entry) EXCLUDES(mutex_);
  uint64_t NextStep(const Entry& entry) const;

  hdfs::FileSystem& fs_;
  const Clock& clock_;
  const PrefetchRules rules_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::list<EntryPtr> entries_ GUARDED_BY(mutex_);  // in turn: the one that had its turn goes to the end
  uint64_t asked_bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t claimed_ GUARDED_BY(mutex_) = 0, expired_ GUARDED_BY(mutex_) = 0;
  std::jthread thread_ GUARDED_BY(mutex_);
};

}  // namespace paceline::fuse_hdfs
