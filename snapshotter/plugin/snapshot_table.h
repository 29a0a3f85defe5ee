// All snapshots of this node: what exists, what lies on what, and the rules of containerd's snapshotters about it.
// Every change is on disk (docs/formats/snapshot-records.md) before it is seen or answered for.
//
// Callers: Snapshots. Thread-safe; changes block for the disk. Changes of one name wait for each other, those of
// different names run side by side.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/filesystem.h"
#include "lib/base/mutex.h"
#include "lib/base/result.h"
#include "snapshotter/plugin/snapshot_record.h"

namespace paceline::snapshotter {

// What containerd asks to be made.
struct NewSnapshot {
  std::string name, parent;
  SnapshotKind kind = SnapshotKind::kActive;
  SnapshotLabels labels;
};

// An Update: all labels, or those of some keys. A label without a value goes.
struct LabelChange {
  SnapshotLabels labels;
  bool replaces_all = true;
  std::vector<std::string> keys;  // when not
};

class SnapshotTable {
 public:
  // Reads what is below `root`. Borrows the two. Damaged records are set aside and counted.
  static Result<std::unique_ptr<SnapshotTable>> Open(std::string root, FileSystem& files, const Clock& clock);

  // Called before a record is written, with its id and what lies below, nearest first; may fill in the rest. When it
  // fails there is no snapshot.
  using Maker = std::function<Status(SnapshotRecord& snapshot, const std::vector<SnapshotPtr>& parents)>;
  // kAlreadyExists; kNotFound without the parent, kInvalidArgument when that is not committed.
  Result<SnapshotPtr> Add(const NewSnapshot& wanted, const Maker& make) EXCLUDES(mutex_);

  // Called before the committed record is written; fills in sizes.
  using Finisher = std::function<Status(SnapshotRecord& snapshot)>;
  // Gives the active snapshot `key` its final name. kNotFound, kAlreadyExists, kAborted when it is not active.
  Result<SnapshotPtr> Commit(const std::string& key, const NewSnapshot& as, const Finisher& finish) EXCLUDES(mutex_);

  // kNotFound; kAborted when others lie on it. Its folder is left to the caller.
  Result<SnapshotPtr> Remove(const std::string& name) EXCLUDES(mutex_);

  Result<SnapshotPtr> UpdateLabels(const std::string& name, const LabelChange& change) EXCLUDES(mutex_);

  Result<SnapshotPtr> Find(const std::string& name) const EXCLUDES(mutex_);
  // Null when there is none.
  SnapshotPtr FindById(uint64_t id) const EXCLUDES(mutex_);
  // What lies below, nearest first. kNotFound names what is missing.
  Result<std::vector<SnapshotPtr>> ParentsOf(const SnapshotRecord& snapshot) const EXCLUDES(mutex_);
  // No id given so far is given again, even when nothing is left of its snapshot: the kernel may still know the files
  // of the layer with that number.
  Status KeepIds() EXCLUDES(mutex_);
  // In the order of their names.
  std::vector<SnapshotPtr> All() const EXCLUDES(mutex_);
  // True for snapshots and for those being made: their folders must stay.
  bool IsLive(uint64_t id) const EXCLUDES(mutex_);
  int damaged_records() const { return damaged_records_; }

 private:
  SnapshotTable(std::string root, FileSystem& files, const Clock& clock)
      : root_(std::move(root)), files_(files), clock_(clock) {}

  Status Load();
  Status LoadRecord(const std::string& file);
  std::string RecordPath(uint64_t id) const;
  Status Write(const SnapshotRecord& snapshot);

  // Waits until nobody changes any of `names`, then keeps others from changing those in `claims`.
  void Claim(MutexLock& lock, const std::set<std::string>& claims, const std::string& quiet = "") REQUIRES(mutex_);
  void Release(const std::set<std::string>& claims) REQUIRES(mutex_);
  SnapshotPtr Get(const std::string& name) const REQUIRES(mutex_);
  Result<std::vector<SnapshotPtr>> ParentChain(const std::string& parent) const REQUIRES(mutex_);
  // Ok when `wanted` may be made; then with what lies below.
  Result<std::vector<SnapshotPtr>> CheckNew(const NewSnapshot& wanted) const REQUIRES(mutex_);
  void AddChild(const std::string& parent, int count) REQUIRES(mutex_);
  void Put(const SnapshotPtr& snapshot) REQUIRES(mutex_);

  const std::string root_;
  FileSystem& files_;
  const Clock& clock_;
  int damaged_records_ = 0;

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::string, SnapshotPtr> snapshots_ GUARDED_BY(mutex_);
  std::map<uint64_t, SnapshotPtr> by_id_ GUARDED_BY(mutex_);
  std::map<std::string, int> children_ GUARDED_BY(mutex_);  // also of those being made
  std::set<std::string> claimed_ GUARDED_BY(mutex_);
  std::set<uint64_t> making_ GUARDED_BY(mutex_);
  uint64_t next_id_ GUARDED_BY(mutex_) = 1;
  uint64_t kept_id_ GUARDED_BY(mutex_) = 0;  // the next one, as the disk has it
};

}  // namespace paceline::snapshotter
