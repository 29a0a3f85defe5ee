// Removes what writers left behind that died, in the directories in which this mount writes: the successor of a job
// that was killed in the middle of a checkpoint comes to the same place, and nobody else sees hidden files that may be
// large. Used by MountFileSystem. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <thread>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/hdfs/file_system.h"

namespace paceline::fuse_hdfs {

struct JanitorRules {
  Duration delay = std::chrono::minutes(2);  // after the first file: longer than a dead writer's lease
  Duration pause = std::chrono::hours(1);    // between two looks at a directory
  Duration quiet = std::chrono::minutes(5);  // of FileSystem::RemoveStaleParts
  Duration limit = std::chrono::minutes(1);  // of one look
  size_t max_directories = 1000;             // that are remembered
};

class PartsJanitor {
 public:
  // Told of each look: how many files and folders went, or why it failed.
  using Report = std::function<void(const std::string& directory, const Result<size_t>& removed)>;

  // `fs` and `clock` are borrowed. No thread runs before the first Note.
  PartsJanitor(hdfs::FileSystem& fs, const Clock& clock, const JanitorRules& rules, Report report);
  // Waits for a look that is under way.
  ~PartsJanitor();

  // A file was completed in `directory`. Does not block.
  void Note(const std::string& directory) EXCLUDES(mutex_);

 private:
  struct Entry {
    TimePoint when;       // of the next look
    bool is_due = false;  // something was written since the last one
  };
  void Run(std::stop_token stop);

  hdfs::FileSystem& fs_;
  const Clock& clock_;
  const JanitorRules rules_;
  const Report report_;
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, Entry> directories_ GUARDED_BY(mutex_);
  std::jthread thread_ GUARDED_BY(mutex_);
};

}  // namespace paceline::fuse_hdfs
