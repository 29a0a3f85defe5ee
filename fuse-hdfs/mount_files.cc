// Requests about open files.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "fuse-hdfs/caller_process.h"
#include "fuse-hdfs/mount_file_system.h"
#include "fuse-hdfs/mount_handles.h"
#include "lib/hdfs/posix_error.h"

namespace paceline::fuse_hdfs {
namespace {

constexpr size_t kMaxWriters = 64;

bool WantsToWrite(int flags) { return (flags & O_ACCMODE) != O_RDONLY; }

}  // namespace

void MountFileSystem::Handle::NoteWriter(int32_t thread) {
  {
    MutexLock lock(mutex);
    if (thread == last_thread) return;
  }
  const int32_t process = ProcessOf(thread);
  MutexLock lock(mutex);
  last_thread = thread;
  if (writers.size() < kMaxWriters) writers.insert(process);
}

// A process that cannot be told counts as one that wrote: its close may be the one whose result matters.
bool MountFileSystem::Handle::IsWriter(int32_t process) {
  MutexLock lock(mutex);
  return process == 0 || writers.count(process) > 0 || writers.count(0) > 0 || writers.size() >= kMaxWriters;
}

MountFileSystem::OpenInodePtr MountFileSystem::FindOpen(uint64_t inode) const {
  MutexLock lock(mutex_);
  const auto found = open_inodes_.find(inode);
  return found == open_inodes_.end() ? nullptr : found->second;
}

MountFileSystem::OpenInodePtr MountFileSystem::RetainOpen(uint64_t inode) {
  MutexLock lock(mutex_);
  OpenInodePtr& open = open_inodes_[inode];
  if (open == nullptr) open = std::make_shared<OpenInode>();
  ++open->handles;
  return open;
}

void MountFileSystem::ReleaseOpen(uint64_t inode, const OpenInodePtr& open) {
  std::string hidden;
  {
    MutexLock lock(mutex_);
    if (--open->handles > 0) return;
    open_inodes_.erase(inode);
    MutexLock inner(open->mutex);
    hidden = open->hidden;
  }
  if (hidden.empty()) return;
  const Status status = fs_.Remove(hidden, hdfs::RemoveMode::kFileOrEmptyDirectory, Within(rules_.metadata_limit));
  if (!status.ok() && status.code() != StatusCode::kNotFound) Fail("remove hidden file", hidden, status);
}

std::shared_ptr<MountFileSystem::Handle> MountFileSystem::FindHandle(uint64_t handle) const {
  MutexLock lock(mutex_);
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : found->second;
}

uint64_t MountFileSystem::AddHandle(std::shared_ptr<Handle> handle) {
  ++stats_.open_handles;
  MutexLock lock(mutex_);
  const uint64_t number = next_handle_++;
  handles_[number] = std::move(handle);
  return number;
}

// Makes sure that the inode has a WrittenFile, and empties the file when that is asked for. The server hears of an
// append only at the first write: programs open finished files for writing just to fsync them.
Status MountFileSystem::OpenForWriting(uint64_t inode, const OpenInodePtr& open, const std::string& path, int flags) {
  std::shared_ptr<WrittenFile> file = open->File();
  hdfs::FileStatus status;
  if (file == nullptr) {
    // Other writers may have been here since the cache was filled.
    cache_.Forget(path);
    ASSIGN_OR_RETURN(status, StatPath(path));
    if (status.type == hdfs::FileStatus::Type::kDirectory) return hdfs::PosixError(EISDIR, path);
    MutexLock lock(open->mutex);
    if (open->file == nullptr) {
      open->file = std::make_shared<WrittenFile>(fs_, clock_, rules_.writes, budget_, path, status.length_bytes);
      open->status = status;
    }
    file = open->file;
  }
  if ((flags & O_TRUNC) == 0) return Status();
  ASSIGN_OR_RETURN(status, StatInode(inode));
  const WrittenFile::View view = file->view();
  RETURN_IF_ERROR(
      file->Begin(hdfs::CreateMode::kOverwrite, status.mode, view.is_on_server, Within(rules_.metadata_limit)));
  MutexLock lock(open->mutex);
  open->status = status;
  return Status();
}

// Opens the reader of a handle. True when the kernel may keep what it has cached of the file.
Result<bool> MountFileSystem::OpenForReading(Handle& handle, uint64_t inode, const std::string& path) {
  ASSIGN_OR_RETURN(const hdfs::FileStatus status, StatPath(path));
  std::unique_ptr<hdfs::Reader> reader = prefetcher_.Claim(path, status);
  if (reader == nullptr) {
    ASSIGN_OR_RETURN(reader, fs_.Open(path, Within(rules_.metadata_limit)));
  }
  const Version version{.modified = status.modified, .length_bytes = reader->length_bytes(), .file_id = status.file_id};
  {
    MutexLock lock(handle.mutex);
    handle.reader = std::move(reader);
  }
  MutexLock lock(mutex_);
  const auto [place, is_new] = versions_.try_emplace(inode, version);
  const bool is_same = !is_new && place->second == version;
  place->second = version;
  return is_same;
}

int MountFileSystem::Open(const fusefs::Caller& caller, uint64_t inode, int flags, fusefs::Opened* opened) {
  Result<std::string> path = PathOf(inode);
  if (!path.ok()) return Fail("open", "", path.status());
  auto handle = std::make_shared<Handle>(rules_.read_ahead);
  handle->open = RetainOpen(inode);
  handle->may_write = WantsToWrite(flags);
  Status status;
  if (handle->may_write || (flags & O_TRUNC) != 0) {
    status = OpenForWriting(inode, handle->open, *path, flags);
    handle->NoteWriter(caller.thread);
  } else if (!OverlayOf(inode).has_value()) {
    Result<bool> keeps = OpenForReading(*handle, inode, *path);
    status = keeps.status();
    opened->keeps_cached_pages = keeps.ok() && *keeps;
  }
  if (!status.ok()) {
    ReleaseOpen(inode, handle->open);
    return Fail("open", *path, status);
  }
  opened->handle = AddHandle(std::move(handle));
  return 0;
}

int MountFileSystem::Create(const fusefs::Caller& caller, uint64_t parent, const std::string& name, uint32_t mode,
                            int flags, fusefs::Entry* entry, fusefs::Opened* opened) {
  Result<std::string> path = PathOf(parent, name);
  if (!path.ok()) return Fail("create", name, path.status());
  if (!fs_.IsVisibleName(name)) return EINVAL;
  const uint64_t inode = nodes_.Acquire(parent, name);
  const OpenInodePtr open = RetainOpen(inode);
  const bool is_being_made = OverlayOf(inode).has_value();
  Status status = is_being_made ? hdfs::PosixError(EEXIST, *path) : Status();
  if (status.ok()) {
    auto file = std::make_shared<WrittenFile>(fs_, clock_, rules_.writes, budget_, *path, 0);
    status = file->Begin(hdfs::CreateMode::kFailIfExists, mode & 07777, false, Within(rules_.metadata_limit));
    if (status.ok()) {
      MutexLock lock(open->mutex);
      open->file = std::move(file);
      open->status = hdfs::FileStatus{.name = name, .mode = mode & 07777};
      open->status.owner = fmt::format("{}", caller.uid);
      open->status.group = fmt::format("{}", caller.gid);
      open->status.modified = open->status.accessed = clock_.WallNow();
    }
  }
  NoteChange(*path);
  // Somebody else was quicker; without O_EXCL that file is opened instead.
  const bool is_there = hdfs::ErrnoOf(status) == EEXIST && (flags & O_EXCL) == 0;
  if (status.ok() || is_there) {
    const int error = OpenCreated(caller, inode, is_there ? flags : flags & ~O_TRUNC, entry, opened);
    ReleaseOpen(inode, open);
    if (error != 0) nodes_.Forget(inode, 1);
    return error;
  }
  ReleaseOpen(inode, open);
  nodes_.Forget(inode, 1);
  return Fail("create", *path, status);
}

int MountFileSystem::OpenCreated(const fusefs::Caller& caller, uint64_t inode, int flags, fusefs::Entry* entry,
                                 fusefs::Opened* opened) {
  const int error = Open(caller, inode, flags, opened);
  if (error != 0) return error;
  Result<hdfs::FileStatus> status = StatInode(inode);
  if (!status.ok()) {
    Release(inode, opened->handle);
    return Fail("create", nodes_.PathOf(inode).value_or(""), status.status());
  }
  *entry = ToEntry(inode, *status);
  return 0;
}

Result<size_t> MountFileSystem::ReadFromServer(Handle& handle, uint64_t offset, std::span<std::byte> out) {
  std::shared_ptr<hdfs::Reader> reader;
  hdfs::ByteRange ahead;
  {
    MutexLock lock(handle.mutex);
    reader = handle.reader;
    if (reader != nullptr) {
      ahead = handle.read_ahead.Next({.offset = offset, .length = out.size()}, reader->length_bytes());
    }
  }
  if (reader == nullptr) return hdfs::PosixError(EIO, "read: no reader");
  if (ahead.length > 0) reader->Prefetch(ahead);
  return reader->Read(offset, out, Within(rules_.read_limit));
}

int MountFileSystem::Read(uint64_t inode, uint64_t number, uint64_t offset, std::span<std::byte> out, size_t* got) {
  const std::shared_ptr<Handle> handle = FindHandle(number);
  if (handle == nullptr) return EBADF;
  const std::shared_ptr<WrittenFile> file = handle->open->File();
  bool is_stale = false;
  if (file != nullptr) {
    if (const std::optional<size_t> held = file->Read(offset, out, Within(rules_.read_limit))) {
      *got = *held;
      return 0;
    }
    // Bytes that are sent but not visible cannot be read; this makes them so.
    const Status status = Commit(*handle->open, Durability::kVisible, Within(rules_.commit_limit));
    if (!status.ok()) return Fail("read", file->path(), status);
    MutexLock lock(handle->mutex);
    is_stale = handle->reader == nullptr || handle->reader->length_bytes() != file->view().size_bytes;
  } else {
    MutexLock lock(handle->mutex);
    is_stale = handle->reader == nullptr;
  }
  if (is_stale) {
    Result<std::string> path = PathOf(inode);
    if (!path.ok()) return Fail("read", "", path.status());
    cache_.Forget(*path);
    Result<bool> reopened = OpenForReading(*handle, inode, *path);
    if (!reopened.ok()) return Fail("read", *path, reopened.status());
  }
  Result<size_t> count = ReadFromServer(*handle, offset, out);
  if (!count.ok()) return Fail("read", nodes_.PathOf(inode).value_or(""), count.status());
  stats_.read_bytes += *count;
  if (*count > 0) stats_.start_read.Note(clock_.WallNow());
  *got = *count;
  return 0;
}

int MountFileSystem::Write(const fusefs::Caller& caller, uint64_t, uint64_t number, uint64_t offset,
                           std::span<const std::byte> data) {
  const std::shared_ptr<Handle> handle = FindHandle(number);
  if (handle == nullptr) return EBADF;
  const std::shared_ptr<WrittenFile> file = handle->open->File();
  if (!handle->may_write || file == nullptr) return EBADF;
  handle->NoteWriter(caller.thread);
  const Status status = file->Write(offset, data, Within(rules_.write_limit));
  if (!status.ok()) return Fail("write", file->path(), status);
  stats_.written_bytes += data.size();
  return 0;
}

// Makes the file visible, then tells the server what was asked of it meanwhile: mode, owner and times belong to the
// finished file.
Status MountFileSystem::Commit(OpenInode& open, Durability durability, Deadline deadline) {
  const std::shared_ptr<WrittenFile> file = open.File();
  if (file == nullptr || !file->view().is_open) return Status();
  const Status status = file->Commit(durability, deadline);
  const std::string path = file->path();
  NoteChange(path);
  ++(status.ok() ? stats_.commits : stats_.failed_commits);
  RETURN_IF_ERROR(status);
  janitor_.Note(path.rfind('/') == 0 ? "/" : path.substr(0, path.rfind('/')));
  if (file->view().is_open) return Status();  // its name is gone, and so is the rest
  fusefs::AttributeChange pending;
  {
    MutexLock lock(open.mutex);
    std::swap(pending, open.pending);
  }
  const Status applied = ApplyPending(path, pending);
  cache_.Forget(path);
  return applied;
}

// An owner that HDFS refuses is no reason to call the file's bytes lost; for an fchown of a finished file it would have
// been that call's error.
Status MountFileSystem::ApplyPending(const std::string& path, const fusefs::AttributeChange& pending) {
  fusefs::AttributeChange owner{.uid = pending.uid, .gid = pending.gid};
  if (owner.uid.has_value() || owner.gid.has_value()) {
    ASSIGN_OR_RETURN(const hdfs::FileStatus status, StatPath(path));
    DropNoChanges(status, owner);
    const Status status_of_owner = ApplyToPath(path, owner);
    if (!status_of_owner.ok()) Fail("chown", path, status_of_owner);
  }
  fusefs::AttributeChange rest = pending;
  rest.uid.reset();
  rest.gid.reset();
  return ApplyToPath(path, rest);
}

// The last close of a process that wrote is the moment to tell it how that went. Others are not: shells open a file,
// copy the descriptor to where it belongs and close the first one; forked children close what they never used.
int MountFileSystem::Flush(const fusefs::Caller& caller, uint64_t inode, uint64_t number) {
  const std::shared_ptr<Handle> handle = FindHandle(number);
  if (handle == nullptr) return EBADF;
  if (!handle->may_write) return 0;
  const int32_t process = ProcessOf(caller.thread);
  if (!handle->IsWriter(process)) return 0;
  const std::string path = nodes_.PathOf(inode).value_or("");
  if (HoldsForWriting(process, inode, path.substr(path.rfind('/') + 1))) return 0;
  const Status status = Commit(*handle->open, Durability::kVisible, Within(rules_.commit_limit));
  return status.ok() ? 0 : Fail("close", handle->open->File()->path(), status);
}

int MountFileSystem::Sync(uint64_t, uint64_t number) {
  const std::shared_ptr<Handle> handle = FindHandle(number);
  if (handle == nullptr) return EBADF;
  const Status status = Commit(*handle->open, Durability::kOnDisk, Within(rules_.commit_limit));
  return status.ok() ? 0 : Fail("fsync", handle->open->File()->path(), status);
}

void MountFileSystem::Release(uint64_t inode, uint64_t number) {
  std::shared_ptr<Handle> handle;
  {
    MutexLock lock(mutex_);
    const auto found = handles_.find(number);
    if (found == handles_.end()) return;
    handle = std::move(found->second);
    handles_.erase(found);
  }
  --stats_.open_handles;
  if (handle->may_write) {
    // Only when every close came from a process that had not written: nobody is left to hear of a failure.
    const Status status = Commit(*handle->open, Durability::kVisible, Within(rules_.commit_limit));
    if (!status.ok()) Fail("release", handle->open->File()->path(), status);
  }
  ReleaseOpen(inode, handle->open);
}

Status MountFileSystem::Resize(uint64_t inode, uint64_t size) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(inode));
  const OpenInodePtr open = RetainOpen(inode);
  Status status = OpenForWriting(inode, open, path, O_WRONLY);
  if (status.ok()) status = open->File()->Truncate(size, Within(rules_.commit_limit));
  bool is_alone = false;
  {
    MutexLock lock(mutex_);
    is_alone = open->handles == 1;
  }
  // truncate(2) of a file that nobody has open must have happened when it returns.
  if (status.ok() && is_alone) status = Commit(*open, Durability::kVisible, Within(rules_.commit_limit));
  NoteChange(path);
  ReleaseOpen(inode, open);
  return status;
}

Status MountFileSystem::FlushAll(Deadline deadline) {
  std::vector<OpenInodePtr> all;
  {
    MutexLock lock(mutex_);
    for (const auto& [inode, open] : open_inodes_) all.push_back(open);
  }
  Status first;
  for (const OpenInodePtr& open : all) {
    const Status status = Commit(*open, Durability::kVisible, deadline);
    if (!status.ok() && first.ok()) first = status.Annotate(open->File()->path());
  }
  return first;
}

}  // namespace paceline::fuse_hdfs
