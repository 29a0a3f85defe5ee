// What a filesystem answers to the kernel: one method per FUSE request, without libfuse's types, so that filesystems
// are written and tested without it. The HDFS mount implements this; Session calls it.
//
// Methods block, run on many threads at once, and must end in bounded time: whoever waits is inside a system call.
// They return 0 or a positive errno. Inodes and handles are numbers of the implementation; inode 1 is the root. Each
// Entry that a method gives out counts as one lookup of its inode, which Forget takes back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"

namespace paceline::fusefs {

inline constexpr uint64_t kRootInode = 1;

// Who asks. `thread` is the kernel's id of the calling thread in the server's PID namespace; 0 when it has none there.
struct Caller {
  uint32_t uid = 0, gid = 0;
  int32_t thread = 0;
};

struct Attributes {
  uint64_t inode = 0;
  uint32_t mode = 0;  // type and permission, as st_mode
  uint32_t links = 1;
  uint32_t uid = 0, gid = 0;
  uint64_t size_bytes = 0;
  uint32_t preferred_io_bytes = 0;
  WallTime modified, accessed, changed;
};

struct Entry {
  Attributes attributes;  // inode 0: there is no such name, and the kernel may remember that for `name_lifetime`
  Duration name_lifetime{0}, attribute_lifetime{0};
};

struct AttributeChange {
  std::optional<uint32_t> mode, uid, gid;
  std::optional<uint64_t> size_bytes;
  std::optional<WallTime> modified, accessed;
  bool modified_is_now = false, accessed_is_now = false;
};

struct Opened {
  uint64_t handle = 0;
  bool uses_page_cache = true;
  bool keeps_cached_pages = false;  // the file is the one that was cached at the last open
};

struct Space {
  uint64_t total_bytes = 0, free_bytes = 0, available_bytes = 0;
  uint64_t total_inodes = 0, free_inodes = 0;
  uint32_t block_bytes = 4096;
};

// Takes directory entries until its buffer is full.
class DirectorySink {
 public:
  virtual ~DirectorySink() = default;
  // Whether entries go out with all attributes and count as lookups (READDIRPLUS).
  virtual bool wants_attributes() const = 0;
  // `next` is the offset that continues behind this entry. False: no room, nothing was taken.
  virtual bool Add(std::string_view name, const Entry& entry, uint64_t next) = 0;
};

class Operations {
 public:
  virtual ~Operations() = default;

  virtual int Lookup(const Caller& caller, uint64_t parent, const std::string& name, Entry* entry) = 0;
  virtual void Forget(uint64_t inode, uint64_t count) = 0;
  virtual int GetAttributes(uint64_t inode, Attributes* attributes, Duration* lifetime) = 0;
  virtual int SetAttributes(const Caller& caller, uint64_t inode, const AttributeChange& change, Attributes* attributes,
                            Duration* lifetime) = 0;
  virtual int ReadLink(uint64_t inode, std::string* target) = 0;

  virtual int MakeDirectory(const Caller& caller, uint64_t parent, const std::string& name, uint32_t mode,
                            Entry* entry) = 0;
  // Makes and opens a file. `flags` as in open(2).
  virtual int Create(const Caller& caller, uint64_t parent, const std::string& name, uint32_t mode, int flags,
                     Entry* entry, Opened* opened) = 0;
  virtual int RemoveFile(uint64_t parent, const std::string& name) = 0;
  virtual int RemoveDirectory(uint64_t parent, const std::string& name) = 0;
  // `flags` as in renameat2(2).
  virtual int Rename(uint64_t parent, const std::string& name, uint64_t new_parent, const std::string& new_name,
                     unsigned flags) = 0;

  virtual int Open(const Caller& caller, uint64_t inode, int flags, Opened* opened) = 0;
  // Less than `out` only at the end of the file.
  virtual int Read(uint64_t inode, uint64_t handle, uint64_t offset, std::span<std::byte> out, size_t* got) = 0;
  virtual int Write(const Caller& caller, uint64_t inode, uint64_t handle, uint64_t offset,
                    std::span<const std::byte> data) = 0;
  // At each close(2) of a descriptor; its errno is that of close.
  virtual int Flush(const Caller& caller, uint64_t inode, uint64_t handle) = 0;
  virtual int Sync(uint64_t inode, uint64_t handle) = 0;
  // After the last descriptor is gone.
  virtual void Release(uint64_t inode, uint64_t handle) = 0;

  virtual int OpenDirectory(uint64_t inode, uint64_t* handle) = 0;
  virtual int ReadDirectory(uint64_t inode, uint64_t handle, uint64_t offset, DirectorySink* sink) = 0;
  virtual void ReleaseDirectory(uint64_t inode, uint64_t handle) = 0;

  virtual int GetSpace(Space* space) = 0;

  virtual int GetXattr(uint64_t inode, const std::string& name, std::string* value) = 0;
  // `flags` as in setxattr(2).
  virtual int SetXattr(uint64_t inode, const std::string& name, std::string_view value, int flags) = 0;
  virtual int ListXattrs(uint64_t inode, std::vector<std::string>* names) = 0;
  virtual int RemoveXattr(uint64_t inode, const std::string& name) = 0;
};

}  // namespace paceline::fusefs
