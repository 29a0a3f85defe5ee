#include "lib/fusefs/node_table.h"

#include <algorithm>

namespace paceline::fusefs {

NodeTable::NodeTable() { nodes_[kRootInode] = Node{.lookups = 1}; }

uint64_t NodeTable::Acquire(uint64_t parent, const std::string& name) {
  MutexLock lock(mutex_);
  const auto [place, is_new] = by_name_.try_emplace(Name(parent, name), next_inode_);
  if (is_new) {
    nodes_[next_inode_++] = Node{.parent = parent, .name = name};
    ++nodes_[parent].children;
  }
  ++nodes_[place->second].lookups;
  return place->second;
}

std::optional<uint64_t> NodeTable::Find(uint64_t parent, const std::string& name) const {
  MutexLock lock(mutex_);
  const auto found = by_name_.find(Name(parent, name));
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

bool NodeTable::Forget(uint64_t inode, uint64_t count) {
  if (inode == kRootInode) return false;
  MutexLock lock(mutex_);
  const auto found = nodes_.find(inode);
  if (found == nodes_.end()) return true;
  found->second.lookups -= std::min(count, found->second.lookups);
  DropIfUnused(inode);
  return nodes_.find(inode) == nodes_.end();
}

// A directory may be forgotten before what is in it, so it stays until its last child goes.
void NodeTable::DropIfUnused(uint64_t inode) {
  while (inode != kRootInode) {
    const auto found = nodes_.find(inode);
    if (found == nodes_.end() || found->second.lookups > 0 || found->second.children > 0) return;
    const uint64_t parent = found->second.parent;
    if (!found->second.is_detached) by_name_.erase(Name(parent, found->second.name));
    nodes_.erase(found);
    const auto above = nodes_.find(parent);
    if (above == nodes_.end()) return;
    --above->second.children;
    inode = parent;
  }
}

std::optional<std::string> NodeTable::PathOf(uint64_t inode) const {
  MutexLock lock(mutex_);
  std::string path;
  while (inode != kRootInode) {
    const auto found = nodes_.find(inode);
    if (found == nodes_.end() || found->second.is_detached) return std::nullopt;
    path.insert(0, "/" + found->second.name);
    inode = found->second.parent;
  }
  return path.empty() ? "/" : path;
}

std::optional<std::string> NodeTable::PathOf(uint64_t parent, const std::string& name) const {
  std::optional<std::string> path = PathOf(parent);
  if (!path.has_value()) return std::nullopt;
  return (*path == "/" ? *path : *path + "/") + name;
}

std::optional<uint64_t> NodeTable::ParentOf(uint64_t inode) const {
  MutexLock lock(mutex_);
  const auto found = nodes_.find(inode);
  if (found == nodes_.end() || found->second.is_detached || inode == kRootInode) return std::nullopt;
  return found->second.parent;
}

void NodeTable::DetachLocked(const Name& name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return;
  nodes_[found->second].is_detached = true;
  by_name_.erase(found);
}

void NodeTable::Detach(uint64_t parent, const std::string& name) {
  MutexLock lock(mutex_);
  DetachLocked(Name(parent, name));
}

void NodeTable::Rename(uint64_t parent, const std::string& name, uint64_t new_parent, const std::string& new_name) {
  MutexLock lock(mutex_);
  if (parent == new_parent && name == new_name) return;
  DetachLocked(Name(new_parent, new_name));
  const auto found = by_name_.find(Name(parent, name));
  if (found == by_name_.end()) return;
  const uint64_t inode = found->second;
  by_name_.erase(found);
  by_name_[Name(new_parent, new_name)] = inode;
  Node& node = nodes_[inode];
  node.parent = new_parent;
  node.name = new_name;
  ++nodes_[new_parent].children;
  --nodes_[parent].children;
  DropIfUnused(parent);
}

size_t NodeTable::size() const {
  MutexLock lock(mutex_);
  return nodes_.size();
}

std::vector<uint64_t> NodeTable::Inodes() const {
  MutexLock lock(mutex_);
  std::vector<uint64_t> inodes;
  for (const auto& [inode, node] : nodes_) {
    if (inode != kRootInode) inodes.push_back(inode);
  }
  return inodes;
}

}  // namespace paceline::fusefs
