// A hdfs::FileSystem as the kernel sees it: FUSE requests in, calls of the filesystem interface out. Names are kept in
// a NodeTable, files that are being written in WrittenFile, what was learnt of paths in StatusCache. Made by run.cc;
// fusefs::Session calls it from many threads. docs/decisions/0009-posix-on-streams.md explains the semantics.
#pragma once

#include <atomic>
#include <memory>
#include <unordered_map>

#include "fuse-hdfs/owner_map.h"
#include "fuse-hdfs/parts_janitor.h"
#include "fuse-hdfs/prefetcher.h"
#include "fuse-hdfs/read_ahead.h"
#include "fuse-hdfs/start_read.h"
#include "fuse-hdfs/status_cache.h"
#include "fuse-hdfs/written_file.h"
#include "lib/fusefs/node_table.h"
#include "lib/fusefs/operations.h"

namespace paceline {
class Logger;
}

namespace paceline::fuse_hdfs {

struct MountRules {
  std::string root = "/";  // the directory of the filesystem that is the root of the mount
  OwnerRules owners;
  WriteRules writes;
  ReadAheadRules read_ahead;
  PrefetchRules prefetch;
  JanitorRules janitor;
  uint32_t space_replication = 1;                         // statfs divides by it
  Duration attribute_lifetime = std::chrono::seconds(1);  // of what the kernel and the cache remember
  size_t max_cached = 100000;
  uint32_t preferred_io_bytes = 1 << 20;
  // No request lasts longer than its limit.
  Duration metadata_limit = std::chrono::seconds(60);
  Duration read_limit = std::chrono::seconds(120);
  Duration write_limit = std::chrono::seconds(120);
  Duration commit_limit = std::chrono::seconds(300);
};

struct MountStats {
  std::atomic<uint64_t> read_bytes{0}, written_bytes{0}, commits{0}, failed_commits{0};
  std::atomic<uint64_t> open_handles{0}, status_hits{0}, status_misses{0};
  StartRead start_read;
};

class MountFileSystem final : public fusefs::Operations {
 public:
  // All borrowed, and must outlive this.
  MountFileSystem(hdfs::FileSystem& fs, const Clock& clock, Logger& log, MountRules rules);
  ~MountFileSystem() override;

  // Makes everything that is being written visible. The first failure is returned; the others are tried all the same.
  Status FlushAll(Deadline deadline) EXCLUDES(mutex_);
  // Forgets what was learnt of the server. The kernel's caches are the caller's affair: Inodes() says which.
  void DropCaches() {
    cache_.Clear();
    prefetcher_.Clear();
  }
  // `path`, a file or a directory below the mount's root ("/step_100"), will be read: see Prefetcher::Add. Also
  // kInvalidArgument for a path with "..".
  Result<Prefetcher::Plan> Prefetch(const std::string& path);
  std::vector<uint64_t> Inodes() const { return nodes_.Inodes(); }

  const MountStats& stats() const { return stats_; }
  uint64_t held_bytes() const { return budget_.held_bytes; }
  size_t known_nodes() const { return nodes_.size(); }
  size_t cached_statuses() const { return cache_.size(); }
  Prefetcher::Stats prefetch_stats() const { return prefetcher_.stats(); }

  int Lookup(const fusefs::Caller& caller, uint64_t parent, const std::string& name, fusefs::Entry* entry) override;
  void Forget(uint64_t inode, uint64_t count) override;
  int GetAttributes(uint64_t inode, fusefs::Attributes* attributes, Duration* lifetime) override;
  int SetAttributes(const fusefs::Caller& caller, uint64_t inode, const fusefs::AttributeChange& change,
                    fusefs::Attributes* attributes, Duration* lifetime) override;
  int ReadLink(uint64_t inode, std::string* target) override;
  int MakeDirectory(const fusefs::Caller& caller, uint64_t parent, const std::string& name, uint32_t mode,
                    fusefs::Entry* entry) override;
  int Create(const fusefs::Caller& caller, uint64_t parent, const std::string& name, uint32_t mode, int flags,
             fusefs::Entry* entry, fusefs::Opened* opened) override;
  int RemoveFile(uint64_t parent, const std::string& name) override;
  int RemoveDirectory(uint64_t parent, const std::string& name) override;
  int Rename(uint64_t parent, const std::string& name, uint64_t new_parent, const std::string& new_name,
             unsigned flags) override;
  int Open(const fusefs::Caller& caller, uint64_t inode, int flags, fusefs::Opened* opened) override;
  int Read(uint64_t inode, uint64_t handle, uint64_t offset, std::span<std::byte> out, size_t* got) override;
  int Write(const fusefs::Caller& caller, uint64_t inode, uint64_t handle, uint64_t offset,
            std::span<const std::byte> data) override;
  int Flush(const fusefs::Caller& caller, uint64_t inode, uint64_t handle) override;
  int Sync(uint64_t inode, uint64_t handle) override;
  void Release(uint64_t inode, uint64_t handle) override;
  int OpenDirectory(uint64_t inode, uint64_t* handle) override;
  int ReadDirectory(uint64_t inode, uint64_t handle, uint64_t offset, fusefs::DirectorySink* sink) override;
  void ReleaseDirectory(uint64_t inode, uint64_t handle) override;
  int GetSpace(fusefs::Space* space) override;
  int GetXattr(uint64_t inode, const std::string& name, std::string* value) override;
  int SetXattr(uint64_t inode, const std::string& name, std::string_view value, int flags) override;
  int ListXattrs(uint64_t inode, std::vector<std::string>* names) override;
  int RemoveXattr(uint64_t inode, const std::string& name) override;

 private:
  struct Handle;           // an open file description
  struct DirectoryHandle;  // an open directory with what was listed so far
  struct OpenInode;        // an inode that has handles
  using OpenInodePtr = std::shared_ptr<OpenInode>;

  // Names and paths.
  Result<std::string> PathOf(uint64_t inode) const;
  Result<std::string> PathOf(uint64_t parent, const std::string& name) const;
  std::string UnderRoot(const std::string& path) const;
  Deadline Within(Duration limit) const { return Deadline::After(clock_, limit); }
  // The errno of a failure; failures that a person should know of are logged.
  int Fail(std::string_view request, const std::string& path, const Status& status) EXCLUDES(mutex_);

  // Attributes.
  Result<hdfs::FileStatus> StatPath(const std::string& path);
  Result<hdfs::FileStatus> StatInode(uint64_t inode);
  fusefs::Attributes ToAttributes(uint64_t inode, const hdfs::FileStatus& status);
  fusefs::Entry ToEntry(uint64_t inode, const hdfs::FileStatus& status);
  int Describe(uint64_t inode, fusefs::Attributes* attributes, Duration* lifetime);
  Status Resize(uint64_t inode, uint64_t size);
  Status ChangeAttributes(uint64_t inode, const fusefs::AttributeChange& change);
  Status ApplyToPath(const std::string& path, const fusefs::AttributeChange& change);
  Status ApplyPending(const std::string& path, const fusefs::AttributeChange& pending);
  void DropNoChanges(const hdfs::FileStatus& status, fusefs::AttributeChange& change);
  // What is known of a file that is being written; nothing when the server knows it all.
  std::optional<hdfs::FileStatus> OverlayOf(uint64_t inode) EXCLUDES(mutex_);

  // Open files.
  OpenInodePtr FindOpen(uint64_t inode) const EXCLUDES(mutex_);
  OpenInodePtr RetainOpen(uint64_t inode) EXCLUDES(mutex_);
  void ReleaseOpen(uint64_t inode, const OpenInodePtr& open) EXCLUDES(mutex_);
  std::shared_ptr<Handle> FindHandle(uint64_t handle) const EXCLUDES(mutex_);
  uint64_t AddHandle(std::shared_ptr<Handle> handle) EXCLUDES(mutex_);
  Status OpenForWriting(uint64_t inode, const OpenInodePtr& open, const std::string& path, int flags);
  Result<bool> OpenForReading(Handle& handle, uint64_t inode, const std::string& path);
  int OpenCreated(const fusefs::Caller& caller, uint64_t inode, int flags, fusefs::Entry* entry,
                  fusefs::Opened* opened);
  Result<size_t> ReadFromServer(Handle& handle, uint64_t offset, std::span<std::byte> out);
  Status Commit(OpenInode& open, Durability durability, Deadline deadline);
  Status CommitBelow(const std::string& path);
  void MoveOpenFiles(const std::string& from, const std::string& to) EXCLUDES(mutex_);
  Status HideOpenFile(uint64_t inode, const OpenInodePtr& open, uint64_t parent, const std::string& name);
  bool RemoveHiddenIn(const std::string& directory) EXCLUDES(mutex_);
  bool RemoveDeadPartsIn(const std::string& directory);
  void ReportCleaning(const std::string& directory, const Result<size_t>& removed);
  void NoteChange(const std::string& path);

  // Directories.
  Status LoadMore(DirectoryHandle& directory, uint64_t inode);
  bool AddListed(uint64_t parent, const hdfs::FileStatus& status, uint64_t next, fusefs::DirectorySink& sink);
  std::vector<hdfs::FileStatus> NewFilesIn(uint64_t parent) EXCLUDES(mutex_);

  hdfs::FileSystem& fs_;
  const Clock& clock_;
  Logger& log_;
  const MountRules rules_;
  OwnerMap owners_;
  fusefs::NodeTable nodes_;
  StatusCache cache_;
  Prefetcher prefetcher_;
  WriteBudget budget_;
  MountStats stats_;

  mutable Mutex mutex_;
  uint64_t next_handle_ GUARDED_BY(mutex_) = 1;
  std::unordered_map<uint64_t, OpenInodePtr> open_inodes_ GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, std::shared_ptr<Handle>> handles_ GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, std::shared_ptr<DirectoryHandle>> directories_ GUARDED_BY(mutex_);
  // What each file looked like when its pages came into the kernel's cache.
  struct Version {
    WallTime modified;
    uint64_t length_bytes = 0, file_id = 0;
    friend bool operator==(const Version&, const Version&) = default;
  };
  std::unordered_map<uint64_t, Version> versions_ GUARDED_BY(mutex_);
  std::optional<hdfs::Capacity> capacity_ GUARDED_BY(mutex_);
  TimePoint capacity_until_ GUARDED_BY(mutex_){};
  TimePoint log_window_ GUARDED_BY(mutex_){};
  int logged_ GUARDED_BY(mutex_) = 0;
  PartsJanitor janitor_;  // the last member: its thread uses the others
};

}  // namespace paceline::fuse_hdfs
