// The file system as a dependency: code that keeps state in files or reads /proc and /sys takes a FileSystem&, so that
// tests give it a tree in memory, a full disk or a power cut (tests/fakes/memory_filesystem.h).
//
// For small files, read and written whole; bulk data has its own paths. All calls block for the disk. Thread-safe.
// Errors are those of ErrnoStatus: kNotFound, kPermissionDenied, kInvalidArgument (not a directory, is a directory, too
// many links), kResourceExhausted (disk full), ...; messages name the call and the path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline {

struct FileInfo {
  enum class Type { kFile, kDirectory, kSymlink, kOther };
  Type type = Type::kOther;
  uint64_t size_bytes = 0;  // of a kFile; as the file system says: 0 for most of /proc
  uint32_t mode = 0;        // permission bits, 07777
  WallTime modified;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // The whole file, links followed. kResourceExhausted when it is larger than `max_bytes`: no bytes are given then.
  virtual Result<std::string> ReadFile(const std::string& path, size_t max_bytes) const = 0;

  // Replaces or makes `path` so that readers see the old or the new contents and nothing between, also after a power
  // cut; when this returns ok the new contents survive one. The directory must exist. A link at `path` is replaced, not
  // followed. After a failure `path` holds the old contents, or the new ones whole when only the last sync failed.
  virtual Status WriteFileAtomically(const std::string& path, std::string_view contents, uint32_t mode = 0644) = 0;

  // Names in a directory without "." and "..", sorted.
  virtual Result<std::vector<std::string>> List(const std::string& path) const = 0;

  // Of what `path` leads to, links followed.
  virtual Result<FileInfo> Stat(const std::string& path) const = 0;

  // Of `path` itself, which may be a link.
  virtual Result<FileInfo> StatLink(const std::string& path) const = 0;

  // Where the link points, as written in it. kInvalidArgument when `path` is no link.
  virtual Result<std::string> ReadSymlink(const std::string& path) const = 0;

  // Makes the directory and those above it; ok when it is there. Survives a power cut.
  virtual Status MakeDirectories(const std::string& path, uint32_t mode = 0755) = 0;

  // Removes a file, a link or an empty directory; kAlreadyExists when the directory is not empty. A power cut may bring
  // it back, as it may undo Rename, until the next WriteFileAtomically in the same directory.
  virtual Status Remove(const std::string& path) = 0;

  // Atomically replaces `to`.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;

  // False for kNotFound; other failures stay failures.
  Result<bool> Exists(const std::string& path) const;
};

// The machine's own. `root`, when not empty, is put in front of every path: "/host" to look at the node from a
// container, a folder of a test. It is a prefix and no jail: absolute links lead out of it.
class RealFileSystem final : public FileSystem {
 public:
  explicit RealFileSystem(std::string root = "") : root_(std::move(root)) {}

  Result<std::string> ReadFile(const std::string& path, size_t max_bytes) const override;
  Status WriteFileAtomically(const std::string& path, std::string_view contents, uint32_t mode) override;
  Result<std::vector<std::string>> List(const std::string& path) const override;
  Result<FileInfo> Stat(const std::string& path) const override;
  Result<FileInfo> StatLink(const std::string& path) const override;
  Result<std::string> ReadSymlink(const std::string& path) const override;
  Status MakeDirectories(const std::string& path, uint32_t mode) override;
  Status Remove(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;

 private:
  std::string Full(const std::string& path) const;

  std::string root_;
};

}  // namespace paceline
