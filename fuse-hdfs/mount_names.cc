// Requests about names: looking up, listing, making, removing, renaming.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "fuse-hdfs/mount_file_system.h"
#include "fuse-hdfs/mount_handles.h"
#include "lib/base/log.h"
#include "lib/hdfs/part_names.h"
#include "lib/hdfs/posix_error.h"

namespace paceline::fuse_hdfs {
namespace {

// linux/fs.h, which clashes with sys/mount.h in some versions.
constexpr unsigned kRenameNoReplace = 1;

bool IsInside(const std::string& path, const std::string& directory) {
  const std::string below = directory == "/" ? directory : directory + "/";
  return path.compare(0, below.size(), below) == 0;
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

// The path itself, and its directory's times.
void MountFileSystem::NoteChange(const std::string& path) {
  cache_.Forget(path);
  cache_.Forget(DirectoryOf(path));
}

int MountFileSystem::Lookup(const fusefs::Caller&, uint64_t parent, const std::string& name, fusefs::Entry* entry) {
  if (!fs_.IsVisibleName(name)) return ENOENT;
  if (const std::optional<uint64_t> inode = nodes_.Find(parent, name)) {
    if (std::optional<hdfs::FileStatus> overlay = OverlayOf(*inode)) {
      *entry = ToEntry(nodes_.Acquire(parent, name), *overlay);
      return 0;
    }
  }
  Result<std::string> path = PathOf(parent, name);
  if (!path.ok()) return Fail("lookup", name, path.status());
  Result<hdfs::FileStatus> status = StatPath(*path);
  if (status.ok()) {
    *entry = ToEntry(nodes_.Acquire(parent, name), *status);
    return 0;
  }
  const int error = Fail("lookup", *path, status.status());
  if (error != ENOENT) return error;
  *entry = fusefs::Entry{.name_lifetime = rules_.attribute_lifetime};
  return 0;
}

void MountFileSystem::Forget(uint64_t inode, uint64_t count) {
  if (!nodes_.Forget(inode, count)) return;
  MutexLock lock(mutex_);
  versions_.erase(inode);
}

int MountFileSystem::MakeDirectory(const fusefs::Caller&, uint64_t parent, const std::string& name, uint32_t mode,
                                   fusefs::Entry* entry) {
  Result<std::string> path = PathOf(parent, name);
  if (!path.ok()) return Fail("mkdir", name, path.status());
  if (!fs_.IsVisibleName(name)) return EINVAL;
  // Mkdirs is content with a directory that is there, mkdir(2) is not.
  cache_.Forget(*path);
  if (StatPath(*path).ok()) return EEXIST;
  const Status status =
      fs_.Mkdirs(*path, mode & 07777, hdfs::MkdirsMode::kParentMustExist, Within(rules_.metadata_limit));
  NoteChange(*path);
  if (!status.ok()) return Fail("mkdir", *path, status);
  Result<hdfs::FileStatus> made = StatPath(*path);
  if (!made.ok()) return Fail("mkdir", *path, made.status());
  *entry = ToEntry(nodes_.Acquire(parent, name), *made);
  return 0;
}

// A file that is open must stay readable, so it keeps its bytes under a hidden name until the last handle goes.
Status MountFileSystem::HideOpenFile(uint64_t inode, const OpenInodePtr& open, uint64_t parent,
                                     const std::string& name) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(parent, name));
  if (const std::shared_ptr<WrittenFile> file = open->File()) {
    const WrittenFile::View view = file->view();
    if (view.is_open) file->Orphan();
    if (view.is_open && !view.is_on_server) {
      nodes_.Detach(parent, name);
      return Status();
    }
  }
  const std::string hidden_name = hdfs::TemporaryName(name, hdfs::MakeWriterId(clock_));
  ASSIGN_OR_RETURN(const std::string hidden, PathOf(parent, hidden_name));
  RETURN_IF_ERROR(fs_.Rename(path, hidden, hdfs::RenameMode::kOverwrite, Within(rules_.metadata_limit)));
  nodes_.Rename(parent, name, parent, hidden_name);
  MutexLock lock(open->mutex);
  open->hidden = hidden;
  if (open->file != nullptr) open->file->SetPath(hidden);
  static_cast<void>(inode);
  return Status();
}

int MountFileSystem::RemoveFile(uint64_t parent, const std::string& name) {
  Result<std::string> path = PathOf(parent, name);
  if (!path.ok()) return Fail("unlink", name, path.status());
  const std::optional<uint64_t> inode = nodes_.Find(parent, name);
  const OpenInodePtr open = inode.has_value() ? FindOpen(*inode) : nullptr;
  Status status;
  if (open != nullptr) {
    status = HideOpenFile(*inode, open, parent, name);
  } else {
    status = fs_.Remove(*path, hdfs::RemoveMode::kFileOrEmptyDirectory, Within(rules_.metadata_limit));
    if (status.ok()) nodes_.Detach(parent, name);
  }
  NoteChange(*path);
  return status.ok() ? 0 : Fail("unlink", *path, status);
}

// Files of ours that are hidden there because they are still open lose their bytes: whoever removes the directory means
// it. True when there were some.
bool MountFileSystem::RemoveHiddenIn(const std::string& directory) {
  std::vector<std::string> hidden;
  {
    MutexLock lock(mutex_);
    for (const auto& [inode, open] : open_inodes_) {
      MutexLock inner(open->mutex);
      if (!open->hidden.empty() && DirectoryOf(open->hidden) == directory) hidden.push_back(open->hidden);
    }
  }
  for (const std::string& path : hidden) {
    const Status status = fs_.Remove(path, hdfs::RemoveMode::kFileOrEmptyDirectory, Within(rules_.metadata_limit));
    status.IgnoreError();  // the directory's own removal says whether it mattered
  }
  return !hidden.empty();
}

// What writers left behind that died is in nobody's listing, so it must not keep anybody from removing the directory.
// True when there was some, and nothing that is seen.
bool MountFileSystem::RemoveDeadPartsIn(const std::string& directory) {
  std::string start_after;
  for (bool has_more = true; has_more;) {
    const Result<hdfs::ListPage> page = fs_.List(directory, start_after, Within(rules_.metadata_limit));
    if (!page.ok()) return false;
    for (const hdfs::FileStatus& entry : page->entries) {
      if (fs_.IsVisibleName(entry.name)) return false;
    }
    has_more = page->has_more && !page->entries.empty();
    if (has_more) start_after = page->entries.back().name;
  }
  const Result<size_t> removed = fs_.RemoveStaleParts(directory, rules_.janitor.quiet, Within(rules_.metadata_limit));
  ReportCleaning(directory, removed);
  return removed.ok() && *removed > 0;
}

void MountFileSystem::ReportCleaning(const std::string& directory, const Result<size_t>& removed) {
  if (!removed.ok()) {
    Fail("remove what dead writers left", directory, removed.status());
  } else if (*removed > 0) {
    log_.Info("removed what dead writers left", {{"directory", directory}, {"files", *removed}});
  }
}

int MountFileSystem::RemoveDirectory(uint64_t parent, const std::string& name) {
  Result<std::string> path = PathOf(parent, name);
  if (!path.ok()) return Fail("rmdir", name, path.status());
  const auto remove = [&] {
    return fs_.Remove(*path, hdfs::RemoveMode::kFileOrEmptyDirectory, Within(rules_.metadata_limit));
  };
  Status status = remove();
  if (hdfs::ErrnoOf(status) == ENOTEMPTY && RemoveHiddenIn(*path)) status = remove();
  if (hdfs::ErrnoOf(status) == ENOTEMPTY && RemoveDeadPartsIn(*path)) status = remove();
  NoteChange(*path);
  if (!status.ok()) return Fail("rmdir", *path, status);
  cache_.ForgetTree(*path);
  nodes_.Detach(parent, name);
  return 0;
}

Status MountFileSystem::CommitBelow(const std::string& path) {
  std::vector<OpenInodePtr> affected;
  {
    MutexLock lock(mutex_);
    for (const auto& [inode, open] : open_inodes_) {
      const std::shared_ptr<WrittenFile> file = open->File();
      if (file == nullptr || !file->view().is_open) continue;
      const std::string written = file->path();
      if (written == path || IsInside(written, path)) affected.push_back(open);
    }
  }
  for (const OpenInodePtr& open : affected) {
    RETURN_IF_ERROR(Commit(*open, Durability::kVisible, Within(rules_.commit_limit)));
  }
  return Status();
}

void MountFileSystem::MoveOpenFiles(const std::string& from, const std::string& to) {
  MutexLock lock(mutex_);
  for (const auto& [inode, open] : open_inodes_) {
    MutexLock inner(open->mutex);
    if (!open->hidden.empty() && IsInside(open->hidden, from)) open->hidden = to + open->hidden.substr(from.size());
    if (open->file == nullptr) continue;
    const std::string path = open->file->path();
    if (path == from || IsInside(path, from)) open->file->SetPath(to + path.substr(from.size()));
  }
}

int MountFileSystem::Rename(uint64_t parent, const std::string& name, uint64_t new_parent, const std::string& new_name,
                            unsigned flags) {
  if ((flags & ~kRenameNoReplace) != 0) return EINVAL;
  Result<std::string> from = PathOf(parent, name);
  if (!from.ok()) return Fail("rename", name, from.status());
  Result<std::string> to = PathOf(new_parent, new_name);
  if (!to.ok()) return Fail("rename", new_name, to.status());
  if (!fs_.IsVisibleName(new_name)) return EINVAL;
  if (*from == *to) return 0;
  // A writer has its final name from the start, so what is being written gets there before it moves.
  Status status = CommitBelow(*from);
  if (!status.ok()) return Fail("rename", *from, status);
  const bool keeps = (flags & kRenameNoReplace) != 0;
  const std::optional<uint64_t> target = nodes_.Find(new_parent, new_name);
  const OpenInodePtr replaced = target.has_value() ? FindOpen(*target) : nullptr;
  const std::shared_ptr<WrittenFile> replaced_file = replaced == nullptr ? nullptr : replaced->File();
  if (keeps && replaced_file != nullptr && replaced_file->view().is_open) return EEXIST;
  status = fs_.Rename(*from, *to, keeps ? hdfs::RenameMode::kFailIfExists : hdfs::RenameMode::kOverwrite,
                      Within(rules_.metadata_limit));
  cache_.ForgetTree(*from);
  cache_.ForgetTree(*to);
  NoteChange(*from);
  NoteChange(*to);
  if (!status.ok()) return Fail("rename", *from, status);
  if (replaced_file != nullptr) replaced_file->Orphan();
  nodes_.Rename(parent, name, new_parent, new_name);
  MoveOpenFiles(*from, *to);
  return 0;
}

int MountFileSystem::OpenDirectory(uint64_t, uint64_t* handle) {
  MutexLock lock(mutex_);
  *handle = next_handle_++;
  directories_[*handle] = std::make_shared<DirectoryHandle>();
  return 0;
}

void MountFileSystem::ReleaseDirectory(uint64_t, uint64_t handle) {
  MutexLock lock(mutex_);
  directories_.erase(handle);
}

std::vector<hdfs::FileStatus> MountFileSystem::NewFilesIn(uint64_t parent) {
  std::vector<std::pair<uint64_t, OpenInodePtr>> all;
  {
    MutexLock lock(mutex_);
    all.assign(open_inodes_.begin(), open_inodes_.end());
  }
  std::vector<hdfs::FileStatus> found;
  for (const auto& [inode, open] : all) {
    if (nodes_.ParentOf(inode) != parent) continue;
    const std::shared_ptr<WrittenFile> file = open->File();
    if (file == nullptr || file->view().is_on_server) continue;
    if (std::optional<hdfs::FileStatus> overlay = OverlayOf(inode)) found.push_back(*std::move(overlay));
  }
  return found;
}

void MountFileSystem::DirectoryHandle::Rewind(size_t index) {
  entries.clear();
  while (!pages.empty() && pages.back().first > index) pages.pop_back();
  first = pages.empty() ? 0 : pages.back().first;
  last_name = pages.empty() ? "" : pages.back().second;
  if (!pages.empty()) pages.pop_back();  // LoadMore notes it again
  has_more = true;
}

// The next page of the server's listing in place of the one before; behind the last one come files that only this mount
// knows.
Status MountFileSystem::LoadMore(DirectoryHandle& directory, uint64_t inode) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(inode));
  const uint64_t generation = cache_.generation();
  ASSIGN_OR_RETURN(hdfs::ListPage page, fs_.List(path, directory.last_name, Within(rules_.metadata_limit)));
  directory.first = directory.end();
  directory.entries.clear();
  directory.pages.emplace_back(directory.first, directory.last_name);
  if (page.entries.empty()) page.has_more = false;
  const std::string prefix = path == "/" ? path : path + "/";
  for (hdfs::FileStatus& entry : page.entries) {
    directory.last_name = entry.name;
    if (!fs_.IsVisibleName(entry.name)) continue;
    cache_.Remember(prefix + entry.name, {.exists = true, .status = entry}, generation);
    directory.entries.push_back(std::move(entry));
  }
  directory.has_more = page.has_more;
  if (directory.has_more) return Status();
  for (hdfs::FileStatus& fresh : NewFilesIn(inode)) {
    // Another client may have made one of the same name; then it was on some page.
    if (StatPath(prefix + fresh.name).ok()) continue;
    directory.entries.push_back(std::move(fresh));
  }
  return Status();
}

bool MountFileSystem::AddListed(uint64_t parent, const hdfs::FileStatus& status, uint64_t next,
                                fusefs::DirectorySink& sink) {
  if (!sink.wants_attributes()) {
    // The number only has to be one that no other entry has.
    const uint64_t inode = nodes_.Find(parent, status.name).value_or((uint64_t{1} << 62) + next);
    return sink.Add(status.name, ToEntry(inode, status), next);
  }
  const uint64_t inode = nodes_.Acquire(parent, status.name);
  const std::optional<hdfs::FileStatus> overlay = OverlayOf(inode);
  if (sink.Add(status.name, ToEntry(inode, overlay.has_value() ? *overlay : status), next)) return true;
  nodes_.Forget(inode, 1);
  return false;
}

int MountFileSystem::ReadDirectory(uint64_t inode, uint64_t handle, uint64_t offset, fusefs::DirectorySink* sink) {
  std::shared_ptr<DirectoryHandle> directory;
  {
    MutexLock lock(mutex_);
    const auto found = directories_.find(handle);
    if (found == directories_.end()) return EBADF;
    directory = found->second;
  }
  MutexLock lock(directory->mutex);
  if (offset == 0) directory->Rewind(0);  // the start, or rewinddir
  const fusefs::Entry self{.attributes = {.inode = inode, .mode = S_IFDIR}};
  if (offset == 0 && !sink->Add(".", self, ++offset)) return 0;
  if (offset == 1 && !sink->Add("..", self, ++offset)) return 0;
  if (offset - 2 < directory->first) directory->Rewind(offset - 2);
  bool has_added = false;
  while (true) {
    const size_t index = offset - 2;
    if (index >= directory->first && index < directory->end()) {
      if (!AddListed(inode, directory->entries[index - directory->first], offset + 1, *sink)) return 0;
      has_added = true;
      ++offset;
      continue;
    }
    // One page of the server per request: a large directory starts to appear at once. Not none, though, where a page
    // has hidden names only: that would be the directory's end.
    if (!directory->has_more || has_added) return 0;
    const Status status = LoadMore(*directory, inode);
    if (!status.ok()) return Fail("readdir", nodes_.PathOf(inode).value_or(""), status);
  }
}

}  // namespace paceline::fuse_hdfs
