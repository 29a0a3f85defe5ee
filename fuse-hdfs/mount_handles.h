// The open files and directories of a MountFileSystem. Private to its sources.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fuse-hdfs/mount_file_system.h"
#include "lib/base/mutex.h"

namespace paceline::fuse_hdfs {

// An inode with handles. `file` is there from the first handle that may write on.
struct MountFileSystem::OpenInode {
  int handles = 0;  // guarded by MountFileSystem::mutex_

  Mutex mutex;
  std::shared_ptr<WrittenFile> file GUARDED_BY(mutex);
  hdfs::FileStatus status GUARDED_BY(mutex);          // at opening, with the changes made since
  fusefs::AttributeChange pending GUARDED_BY(mutex);  // to be made on the server after the next Commit
  std::string hidden GUARDED_BY(mutex);               // path on the server of a file whose name was removed

  std::shared_ptr<WrittenFile> File() EXCLUDES(mutex) {
    MutexLock lock(mutex);
    return file;
  }
};

struct MountFileSystem::Handle {
  OpenInodePtr open;
  bool may_write = false;

  Mutex mutex;
  std::shared_ptr<hdfs::Reader> reader GUARDED_BY(mutex);
  ReadAhead read_ahead GUARDED_BY(mutex);
  // Processes that opened the file or wrote through this handle. A process that did neither has the descriptor from a
  // fork, and its close is not the end of the file.
  std::set<int32_t> writers GUARDED_BY(mutex);
  int32_t last_thread GUARDED_BY(mutex) = 0;

  explicit Handle(const ReadAheadRules& rules) : read_ahead(rules) {}
  void NoteWriter(int32_t thread) EXCLUDES(mutex);
  bool IsWriter(int32_t process) EXCLUDES(mutex);
};

// Holds one page of the server's listing at a time, however large the directory.
struct MountFileSystem::DirectoryHandle {
  Mutex mutex;  // held while a page is fetched: one handle is read by one thread, others wait for the same page
  std::vector<hdfs::FileStatus> entries;
  size_t first = 0;  // number of entries[0] in the directory
  std::string last_name;
  bool has_more = true;
  // Where pages begin: the number of the first entry, and the name before it. For readers that go back (seekdir).
  std::vector<std::pair<size_t, std::string>> pages;

  size_t end() const { return first + entries.size(); }
  // Back to the page that holds the entry with this number.
  void Rewind(size_t index);
};

}  // namespace paceline::fuse_hdfs
