// Inodes that the kernel knows: numbers for (parent, name) pairs, counted as the kernel counts them. Filesystems that
// think in paths use it to get from a number to a path, also after renames above it. Thread-safe; nothing blocks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "lib/base/mutex.h"
#include "lib/fusefs/operations.h"

namespace paceline::fusefs {

class NodeTable {
 public:
  // Only the root is there, for good.
  NodeTable();

  // The inode of a name, made when it is not there; counts one lookup.
  uint64_t Acquire(uint64_t parent, const std::string& name);
  // Without counting, without making.
  std::optional<uint64_t> Find(uint64_t parent, const std::string& name) const;
  // Takes lookups back. A node goes when it has none left and no children. True when it is gone.
  bool Forget(uint64_t inode, uint64_t count);

  // "/a/b", "/" for the root. Nothing for an unknown inode and for one whose name, or a name above it, was removed.
  std::optional<std::string> PathOf(uint64_t inode) const;
  // The path of a name in a directory, whether or not there is a node.
  std::optional<std::string> PathOf(uint64_t parent, const std::string& name) const;
  std::optional<uint64_t> ParentOf(uint64_t inode) const;

  // The name is gone: its node has no path any more. Nothing happens when there is none.
  void Detach(uint64_t parent, const std::string& name);
  // The node of the old name gets the new one; a node that had the new name is detached.
  void Rename(uint64_t parent, const std::string& name, uint64_t new_parent, const std::string& new_name);

  // Nodes known now, the root included.
  size_t size() const;
  // All inodes but the root, for invalidation.
  std::vector<uint64_t> Inodes() const;

 private:
  struct Node {
    uint64_t parent = 0;
    std::string name;
    uint64_t lookups = 0;
    uint64_t children = 0;  // nodes that name this one as parent, detached ones included
    bool is_detached = false;
  };
  using Name = std::pair<uint64_t, std::string>;

  void DetachLocked(const Name& name) REQUIRES(mutex_);
  void DropIfUnused(uint64_t inode) REQUIRES(mutex_);

  mutable Mutex mutex_;
  uint64_t next_inode_ GUARDED_BY(mutex_) = kRootInode + 1;
  std::unordered_map<uint64_t, Node> nodes_ GUARDED_BY(mutex_);
  std::map<Name, uint64_t> by_name_ GUARDED_BY(mutex_);
};

}  // namespace paceline::fusefs
