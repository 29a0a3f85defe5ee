// A FileSystem in memory that can fail like a real one: errors on demand, a full disk, a power cut. Passes the same
// contract suite as RealFileSystem (tests/base/filesystem_contract_test.cc). Thread-safe. Starts with "/" alone.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/base/filesystem.h"
#include "lib/base/mutex.h"

namespace paceline::fakes {

class MemoryFileSystem final : public FileSystem {
 public:
  enum class Operation { kRead, kWrite, kSync, kList, kStat, kMakeDirectory, kRemove, kRename };

  // Times of files are those of `clock`, which must outlive this object.
  explicit MemoryFileSystem(const Clock& clock);

  Result<std::string> ReadFile(const std::string& path, size_t max_bytes) const override;
  Status WriteFileAtomically(const std::string& path, std::string_view contents, uint32_t mode = 0644) override;
  Result<std::vector<std::string>> List(const std::string& path) const override;
  Result<FileInfo> Stat(const std::string& path) const override;
  Result<FileInfo> StatLink(const std::string& path) const override;
  Result<std::string> ReadSymlink(const std::string& path) const override;
  Status MakeDirectories(const std::string& path, uint32_t mode = 0755) override;
  Status Remove(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;

  // Sets the scene, never failing: makes the directories above, and is safe from a power cut.
  void AddFile(const std::string& path, std::string contents);
  void AddSymlink(const std::string& path, std::string target);

  // The next `times` operations of this kind on `path` (or on anything below it) fail with this errno. kSync is the end
  // of WriteFileAtomically: the file keeps its old contents.
  void FailNext(Operation operation, const std::string& path, int error, int times = 1);

  // Writes that would bring the sum of all file sizes above this fail with ENOSPC. The old and the new contents of a
  // replaced file count both, since both exist for a moment.
  void SetCapacity(uint64_t bytes);

  // Back to what a disk would hold after the power went: whatever was not synced is as it was before.
  void LosePower();

 private:
  struct Node {
    FileInfo info;
    std::string contents;  // of a file; the target of a link
  };
  using Tree = std::map<std::string, Node>;  // by absolute path without a trailing slash; "" is the root

  struct Fault {
    Operation operation;
    std::string path;
    int error;
    int times;
  };

  enum class LastPart { kFollow, kKeep };
  // The path with all links on the way followed; the last part only when asked. The last part need not exist.
  Result<std::string> Resolve(const std::string& path, LastPart last_part) const REQUIRES(mutex_);
  Result<const Node*> Find(const std::string& path, LastPart last_part) const REQUIRES(mutex_);
  Status TakeFault(Operation operation, const std::string& path) const REQUIRES(mutex_);
  std::vector<std::string> Children(const Tree& tree, const std::string& directory) const REQUIRES(mutex_);
  Status CheckCapacity(size_t more_bytes) const REQUIRES(mutex_);
  // Makes the entries of one directory safe from a power cut.
  void SyncDirectory(const std::string& directory) REQUIRES(mutex_);
  void AddNode(const std::string& path, Node node);
  Node MakeNode(FileInfo::Type type, std::string contents, uint32_t mode) const;

  const Clock& clock_;
  mutable Mutex mutex_;
  Tree tree_ GUARDED_BY(mutex_);
  Tree durable_ GUARDED_BY(mutex_);
  mutable std::vector<Fault> faults_ GUARDED_BY(mutex_);
  uint64_t capacity_bytes_ GUARDED_BY(mutex_);
};

}  // namespace paceline::fakes
