#include "tests/fakes/memory_filesystem.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <limits>

#include "lib/base/check.h"

namespace paceline::fakes {

namespace {

constexpr int kMaxLinks = 40;  // as Linux

std::deque<std::string> Parts(const std::string& path) {
  std::deque<std::string> parts;
  for (size_t start = 0; start < path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (end > start && path.substr(start, end - start) != ".") parts.push_back(path.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool IsBelow(const std::string& path, const std::string& directory) {
  return path == directory || path.rfind(directory + "/", 0) == 0;
}

}  // namespace

MemoryFileSystem::MemoryFileSystem(const Clock& clock)
    : clock_(clock), capacity_bytes_(std::numeric_limits<uint64_t>::max()) {
  tree_[""] = MakeNode(FileInfo::Type::kDirectory, "", 0755);
  durable_ = tree_;
}

MemoryFileSystem::Node MemoryFileSystem::MakeNode(FileInfo::Type type, std::string contents, uint32_t mode) const {
  Node node;
  node.info.type = type;
  node.info.size_bytes = type == FileInfo::Type::kFile ? contents.size() : 0;
  node.info.mode = mode;
  node.info.modified = clock_.WallNow();
  node.contents = std::move(contents);
  return node;
}

Result<std::string> MemoryFileSystem::Resolve(const std::string& path, LastPart last_part) const {
  std::deque<std::string> parts = Parts(path);
  std::string at;
  int links = 0;
  while (!parts.empty()) {
    const std::string part = parts.front();
    parts.pop_front();
    const Node& directory = tree_.at(at);
    if (directory.info.type != FileInfo::Type::kDirectory) return ErrnoStatus(ENOTDIR, path);
    if (part == "..") {
      at = at.empty() ? "" : ParentOf(at);
      continue;
    }
    const std::string next = at + "/" + part;
    const auto found = tree_.find(next);
    if (found == tree_.end()) {
      if (!parts.empty()) return ErrnoStatus(ENOENT, path);
      return next;
    }
    const bool is_link = found->second.info.type == FileInfo::Type::kSymlink;
    if (!is_link || (parts.empty() && last_part == LastPart::kKeep)) {
      at = next;
      continue;
    }
    if (++links > kMaxLinks) return ErrnoStatus(ELOOP, path);
    const std::string& target = found->second.contents;
    if (target.rfind('/', 0) == 0) at.clear();
    std::deque<std::string> target_parts = Parts(target);
    parts.insert(parts.begin(), target_parts.begin(), target_parts.end());
  }
  return at;
}

Result<const MemoryFileSystem::Node*> MemoryFileSystem::Find(const std::string& path, LastPart last_part) const {
  ASSIGN_OR_RETURN(const std::string resolved, Resolve(path, last_part));
  const auto found = tree_.find(resolved);
  if (found == tree_.end()) return ErrnoStatus(ENOENT, path);
  return &found->second;
}

Status MemoryFileSystem::TakeFault(Operation operation, const std::string& path) const {
  for (Fault& fault : faults_) {
    if (fault.times == 0 || fault.operation != operation || !IsBelow(path, fault.path)) continue;
    --fault.times;
    return ErrnoStatus(fault.error, path);
  }
  return Status();
}

std::vector<std::string> MemoryFileSystem::Children(const Tree& tree, const std::string& directory) const {
  std::vector<std::string> names;
  const std::string prefix = directory + "/";
  for (auto entry = tree.lower_bound(prefix); entry != tree.end() && entry->first.rfind(prefix, 0) == 0; ++entry) {
    const std::string name = entry->first.substr(prefix.size());
    if (name.find('/') == std::string::npos) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Status MemoryFileSystem::CheckCapacity(size_t more_bytes) const {
  uint64_t used = more_bytes;
  for (const auto& [path, node] : tree_) used += node.info.size_bytes;
  if (used > capacity_bytes_) return ErrnoStatus(ENOSPC, "write");
  return Status();
}

void MemoryFileSystem::SyncDirectory(const std::string& directory) {
  for (const std::string& name : Children(durable_, directory)) {
    const std::string path = directory + "/" + name;
    if (tree_.count(path) > 0) continue;
    std::erase_if(durable_, [&path](const auto& entry) { return IsBelow(entry.first, path); });
  }
  for (const std::string& name : Children(tree_, directory)) {
    const std::string path = directory + "/" + name;
    // A directory that was renamed brings along what is below it.
    const bool is_new = durable_.count(path) == 0;
    durable_[path] = tree_.at(path);
    if (!is_new) continue;
    for (const auto& [below, node] : tree_) {
      if (IsBelow(below, path)) durable_[below] = node;
    }
  }
}

Result<std::string> MemoryFileSystem::ReadFile(const std::string& path, size_t max_bytes) const {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(TakeFault(Operation::kRead, path));
  ASSIGN_OR_RETURN(const Node* node, Find(path, LastPart::kFollow));
  if (node->info.type == FileInfo::Type::kDirectory) return ErrnoStatus(EISDIR, path);
  if (node->contents.size() > max_bytes) return ResourceExhaustedError(path + ": larger than the limit");
  return node->contents;
}

Status MemoryFileSystem::WriteFileAtomically(const std::string& path, std::string_view contents, uint32_t mode) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(TakeFault(Operation::kWrite, path));
  ASSIGN_OR_RETURN(const std::string resolved, Resolve(path, LastPart::kKeep));
  const auto old = tree_.find(resolved);
  if (old != tree_.end() && old->second.info.type == FileInfo::Type::kDirectory) return ErrnoStatus(EISDIR, path);
  RETURN_IF_ERROR(CheckCapacity(contents.size()));
  RETURN_IF_ERROR(TakeFault(Operation::kSync, path));
  tree_[resolved] = MakeNode(FileInfo::Type::kFile, std::string(contents), mode);
  SyncDirectory(ParentOf(resolved));
  return Status();
}

Result<std::vector<std::string>> MemoryFileSystem::List(const std::string& path) const {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(TakeFault(Operation::kList, path));
  ASSIGN_OR_RETURN(const std::string resolved, Resolve(path, LastPart::kFollow));
  const auto found = tree_.find(resolved);
  if (found == tree_.end()) return ErrnoStatus(ENOENT, path);
  if (found->second.info.type != FileInfo::Type::kDirectory) return ErrnoStatus(ENOTDIR, path);
  return Children(tree_, resolved);
}

Result<FileInfo> MemoryFileSystem::Stat(const std::string& path) const {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(TakeFault(Operation::kStat, path));
  ASSIGN_OR_RETURN(const Node* node, Find(path, LastPart::kFollow));
  return node->info;
}

Result<FileInfo> MemoryFileSystem::StatLink(const std::string& path) const {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(TakeFault(Operation::kStat, path));
  ASSIGN_OR_RETURN(const Node* node, Find(path, LastPart::kKeep));
  return node->info;
}

Result<std::string> MemoryFileSystem::ReadSymlink(const std::string& path) const {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(TakeFault(Operation::kRead, path));
  ASSIGN_OR_RETURN(const Node* node, Find(path, LastPart::kKeep));
  if (node->info.type != FileInfo::Type::kSymlink) return ErrnoStatus(EINVAL, path);
  return node->contents;
}

Status MemoryFileSystem::MakeDirectories(const std::string& path, uint32_t mode) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(TakeFault(Operation::kMakeDirectory, path));
  std::string part;
  for (const std::string& name : Parts(path)) {
    part += "/" + name;
    ASSIGN_OR_RETURN(const std::string resolved, Resolve(part, LastPart::kFollow));
    const auto found = tree_.find(resolved);
    if (found == tree_.end()) {
      tree_[resolved] = MakeNode(FileInfo::Type::kDirectory, "", mode);
      SyncDirectory(ParentOf(resolved));
    } else if (found->second.info.type != FileInfo::Type::kDirectory) {
      return ErrnoStatus(ENOTDIR, path);
    }
  }
  return Status();
}

Status MemoryFileSystem::Remove(const std::string& path) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(TakeFault(Operation::kRemove, path));
  ASSIGN_OR_RETURN(const std::string resolved, Resolve(path, LastPart::kKeep));
  const auto found = tree_.find(resolved);
  if (found == tree_.end()) return ErrnoStatus(ENOENT, path);
  if (resolved.empty()) return ErrnoStatus(EBUSY, path);
  if (!Children(tree_, resolved).empty()) return ErrnoStatus(ENOTEMPTY, path);
  tree_.erase(found);
  return Status();
}

Status MemoryFileSystem::Rename(const std::string& from, const std::string& to) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(TakeFault(Operation::kRename, from));
  ASSIGN_OR_RETURN(const std::string source, Resolve(from, LastPart::kKeep));
  ASSIGN_OR_RETURN(const std::string target, Resolve(to, LastPart::kKeep));
  if (tree_.count(source) == 0) return ErrnoStatus(ENOENT, from);
  if (source == target) return Status();
  const bool is_directory = tree_.at(source).info.type == FileInfo::Type::kDirectory;
  if (is_directory && IsBelow(target, source)) return ErrnoStatus(EINVAL, to);
  if (const auto replaced = tree_.find(target); replaced != tree_.end()) {
    const bool replaces_directory = replaced->second.info.type == FileInfo::Type::kDirectory;
    if (is_directory && !replaces_directory) return ErrnoStatus(ENOTDIR, to);
    if (!is_directory && replaces_directory) return ErrnoStatus(EISDIR, to);
    if (!Children(tree_, target).empty()) return ErrnoStatus(ENOTEMPTY, to);
  }
  Tree moved;
  for (const auto& [path, node] : tree_) {
    if (IsBelow(path, source)) moved[target + path.substr(source.size())] = node;
  }
  std::erase_if(tree_, [&source](const auto& entry) { return IsBelow(entry.first, source); });
  for (auto& [path, node] : moved) tree_[path] = std::move(node);
  return Status();
}

void MemoryFileSystem::AddNode(const std::string& path, Node node) {
  const Status made = MakeDirectories(ParentOf(path), 0755);
  CHECK(made.ok());
  MutexLock lock(mutex_);
  const Result<std::string> resolved = Resolve(path, LastPart::kKeep);
  CHECK(resolved.ok());
  tree_[*resolved] = node;
  durable_[*resolved] = std::move(node);
}

void MemoryFileSystem::AddFile(const std::string& path, std::string contents) {
  AddNode(path, MakeNode(FileInfo::Type::kFile, std::move(contents), 0644));
}

void MemoryFileSystem::AddSymlink(const std::string& path, std::string target) {
  AddNode(path, MakeNode(FileInfo::Type::kSymlink, std::move(target), 0777));
}

void MemoryFileSystem::FailNext(Operation operation, const std::string& path, int error, int times) {
  MutexLock lock(mutex_);
  faults_.push_back({operation, path, error, times});
}

void MemoryFileSystem::SetCapacity(uint64_t bytes) {
  MutexLock lock(mutex_);
  capacity_bytes_ = bytes;
}

void MemoryFileSystem::LosePower() {
  MutexLock lock(mutex_);
  tree_ = durable_;
}

}  // namespace paceline::fakes
