#include "lib/hdfs/local_file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "lib/base/unique_fd.h"
#include "lib/hdfs/part_names.h"
#include "lib/hdfs/path_text.h"
#include "lib/hdfs/posix_error.h"

namespace paceline::hdfs {
namespace {

constexpr size_t kPageEntries = 1000;
constexpr size_t kShownBlockBytes = 128 << 20;  // what HDFS would say; nothing is cut here

Status CallError(int error, std::string_view call, const std::string& path) {
  const std::string what = fmt::format("{} {}", call, path);
  switch (error) {
    case ENOENT:
    case EEXIST:
    case ENOTEMPTY:
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP:
    case EXDEV:
    case ENODATA:
    case ENOSPC:
    case EDQUOT:
    case EOPNOTSUPP: return PosixError(error, ErrnoStatus(error, what).message());
    default: return ErrnoStatus(error, what);
  }
}

WallTime ToWallTime(const timespec& time) {
  return WallTime(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

timespec ToTimespec(std::optional<WallTime> time) {
  if (!time.has_value()) return {.tv_sec = 0, .tv_nsec = UTIME_OMIT};
  const auto since = time->time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  return {.tv_sec = seconds.count(), .tv_nsec = (since - seconds).count()};
}

std::string UserName(uid_t id) {
  passwd entry;
  passwd* found = nullptr;
  char text[4096];
  if (getpwuid_r(id, &entry, text, sizeof text, &found) == 0 && found != nullptr) return found->pw_name;
  return std::to_string(id);
}

std::string GroupName(gid_t id) {
  group entry;
  group* found = nullptr;
  char text[16384];
  if (getgrgid_r(id, &entry, text, sizeof text, &found) == 0 && found != nullptr) return found->gr_name;
  return std::to_string(id);
}

FileStatus ToStatus(const std::string& path, const struct stat& st) {
  FileStatus status;
  status.name = NameOf(path);
  status.mode = st.st_mode & 07777;
  status.owner = UserName(st.st_uid);
  status.group = GroupName(st.st_gid);
  status.modified = ToWallTime(st.st_mtim);
  status.accessed = ToWallTime(st.st_atim);
  status.file_id = st.st_ino;
  if (S_ISDIR(st.st_mode)) {
    status.type = FileStatus::Type::kDirectory;
  } else {
    if (S_ISLNK(st.st_mode)) status.type = FileStatus::Type::kSymlink;
    status.length_bytes = static_cast<uint64_t>(st.st_size);
    status.replication = 1;
    status.block_size_bytes = kShownBlockBytes;
  }
  return status;
}

class LocalReader final : public Reader {
 public:
  LocalReader(std::string path, UniqueFd fd, uint64_t length)
      : path_(std::move(path)), fd_(std::move(fd)), length_(length) {}

  uint64_t length_bytes() const override { return length_; }

  Result<size_t> Read(uint64_t offset, std::span<std::byte> out, Deadline) override {
    if (offset >= length_) return 0;
    const size_t want = std::min<uint64_t>(out.size(), length_ - offset);
    size_t done = 0;
    while (done < want) {
      const ssize_t got = pread(fd_.get(), out.data() + done, want - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return CallError(errno, "read", path_);
      if (got == 0) break;  // cut by somebody since Open
      done += static_cast<size_t>(got);
    }
    return done;
  }

  void Prefetch(ByteRange range) override {
    // A hint, so its failure is nobody's loss.
    posix_fadvise(fd_.get(), static_cast<off_t>(range.offset), static_cast<off_t>(range.length), POSIX_FADV_WILLNEED);
  }

 private:
  const std::string path_;
  const UniqueFd fd_;
  const uint64_t length_;
};

class LocalWriter final : public Writer {
 public:
  // Without `final_path` the file is appended to and keeps its name.
  LocalWriter(std::string path, std::string final_path, CreateMode mode, UniqueFd fd, uint64_t position)
      : path_(std::move(path)),
        final_path_(std::move(final_path)),
        mode_(mode),
        fd_(std::move(fd)),
        start_(position),
        position_(position) {}
  ~LocalWriter() override { Abandon(); }

  Status Write(std::span<const std::byte> data, Deadline) override {
    RETURN_IF_ERROR(Usable());
    while (!data.empty()) {
      const ssize_t put = write(fd_.get(), data.data(), data.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return Fail(CallError(errno, "write", path_));
      position_ += static_cast<uint64_t>(put);
      data = data.subspan(static_cast<size_t>(put));
    }
    return Status();
  }

  Status Flush(Deadline) override { return Usable(); }

  Status Sync(Deadline) override {
    RETURN_IF_ERROR(Usable());
    return fdatasync(fd_.get()) == 0 ? Status() : Fail(CallError(errno, "fdatasync", path_));
  }

  Status Close(Deadline) override {
    RETURN_IF_ERROR(Usable());
    if (!final_path_.empty()) {
      const unsigned flags = mode_ == CreateMode::kFailIfExists ? RENAME_NOREPLACE : 0u;
      if (renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, final_path_.c_str(), flags) != 0) {
        return Fail(CallError(errno, "rename to", final_path_));
      }
    }
    fd_.Reset();
    return Status();
  }

  void Abandon() override {
    if (!fd_.is_valid()) return;
    // Nothing can be done about a failure here; the janitor finds the file.
    if (final_path_.empty()) {
      if (ftruncate(fd_.get(), static_cast<off_t>(start_)) != 0) fd_.Reset();
    } else {
      unlink(path_.c_str());
    }
    fd_.Reset();
  }

  uint64_t position_bytes() const override { return position_; }

 private:
  Status Usable() const {
    if (!failure_.ok()) return failure_;
    return fd_.is_valid() ? Status() : InvalidArgumentError(path_ + ": the writer is closed");
  }
  Status Fail(Status status) { return failure_ = std::move(status); }

  const std::string path_, final_path_;
  const CreateMode mode_;
  UniqueFd fd_;
  Status failure_;
  const uint64_t start_;
  uint64_t position_;
};

class LocalFileSystem final : public FileSystem {
 public:
  explicit LocalFileSystem(const Clock& clock) : clock_(clock) {}

  Result<FileStatus> Stat(const std::string& path, Deadline) override { return StatPath(path); }

  Result<ListPage> List(const std::string& path, const std::string& start_after, Deadline) override {
    ASSIGN_OR_RETURN(FileStatus self, StatPath(path));
    ListPage page;
    if (self.type != FileStatus::Type::kDirectory) {
      if (start_after.empty()) page.entries.push_back(std::move(self));
      return page;
    }
    ASSIGN_OR_RETURN(std::vector<std::string> names, NamesBehind(path, start_after));
    const size_t count = std::min(names.size(), kPageEntries);
    std::partial_sort(names.begin(), names.begin() + static_cast<ptrdiff_t>(count), names.end());
    page.has_more = names.size() > count;
    names.resize(count);
    for (const std::string& name : names) {
      Result<FileStatus> entry = StatPath(Join(path, name));
      // Gone since the directory was read; but the page must move on, so its last name stays.
      if (entry.ok()) page.entries.push_back(*std::move(entry));
    }
    if (page.entries.empty() && page.has_more) return List(path, names.back(), Deadline::Infinite());
    return page;
  }

  Status Mkdirs(const std::string& path, FileMode mode, MkdirsMode parents, Deadline) override {
    if (mkdir(path.c_str(), mode) == 0)
      return chmod(path.c_str(), mode) == 0 ? Status() : CallError(errno, "chmod", path);
    if (errno == EEXIST) {
      struct stat st;
      if (stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) return Status();
      return CallError(EEXIST, "mkdir", path);
    }
    if (errno != ENOENT || parents == MkdirsMode::kParentMustExist || path.size() < 2)
      return CallError(errno, "mkdir", path);
    std::string parent = ParentOf(path);
    parent.pop_back();
    RETURN_IF_ERROR(Mkdirs(parent, mode, parents, Deadline::Infinite()));
    return Mkdirs(path, mode, MkdirsMode::kParentMustExist, Deadline::Infinite());
  }

  Status Remove(const std::string& path, RemoveMode mode, Deadline) override {
    if (mode == RemoveMode::kRecursive) {
      std::error_code error;
      if (std::filesystem::remove_all(path, error) == 0 && !error) return CallError(ENOENT, "remove", path);
      return error ? CallError(error.value(), "remove", path) : Status();
    }
    return ::remove(path.c_str()) == 0 ? Status() : CallError(errno, "remove", path);
  }

  Status Rename(const std::string& from, const std::string& to, RenameMode mode, Deadline) override {
    const unsigned flags = mode == RenameMode::kFailIfExists ? RENAME_NOREPLACE : 0u;
    if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0) return Status();
    return CallError(errno, "rename to", to);
  }

  Status SetMode(const std::string& path, FileMode mode, Deadline) override {
    return chmod(path.c_str(), mode) == 0 ? Status() : CallError(errno, "chmod", path);
  }

  Status SetOwner(const std::string& path, const std::string& owner, const std::string& group, Deadline) override {
    uid_t uid = static_cast<uid_t>(-1);
    gid_t gid = static_cast<gid_t>(-1);
    char text[16384];
    if (!owner.empty()) {
      passwd entry;
      passwd* found = nullptr;
      if (getpwnam_r(owner.c_str(), &entry, text, sizeof text, &found) != 0 || found == nullptr) {
        return PosixError(EINVAL, "chown " + path + ": no user " + owner);
      }
      uid = found->pw_uid;
    }
    if (!group.empty()) {
      struct group entry;
      struct group* found = nullptr;
      if (getgrnam_r(group.c_str(), &entry, text, sizeof text, &found) != 0 || found == nullptr) {
        return PosixError(EINVAL, "chown " + path + ": no group " + group);
      }
      gid = found->gr_gid;
    }
    return lchown(path.c_str(), uid, gid) == 0 ? Status() : CallError(errno, "chown", path);
  }

  Status SetTimes(const std::string& path, std::optional<WallTime> modified, std::optional<WallTime> accessed,
                  Deadline) override {
    const timespec times[2] = {ToTimespec(accessed), ToTimespec(modified)};
    return utimensat(AT_FDCWD, path.c_str(), times, 0) == 0 ? Status() : CallError(errno, "set times of", path);
  }

  Status SetReplication(const std::string& path, uint32_t, Deadline) override { return StatPath(path).status(); }

  Result<Xattrs> GetXattrs(const std::string& path, Deadline) override {
    std::string names(64 << 10, '\0');
    const ssize_t size = llistxattr(path.c_str(), names.data(), names.size());
    if (size < 0) return CallError(errno, "list attributes of", path);
    names.resize(static_cast<size_t>(size));
    Xattrs attributes;
    for (size_t at = 0; at < names.size();) {
      const std::string name = names.c_str() + at;
      at += name.size() + 1;
      std::string value(64 << 10, '\0');
      const ssize_t got = lgetxattr(path.c_str(), name.c_str(), value.data(), value.size());
      if (got < 0) continue;  // gone, or not for us to see
      value.resize(static_cast<size_t>(got));
      attributes.emplace_back(name, std::move(value));
    }
    return attributes;
  }

  Status SetXattr(const std::string& path, const std::string& name, std::string_view value, XattrMode mode,
                  Deadline) override {
    const int flags = mode == XattrMode::kCreate ? XATTR_CREATE : mode == XattrMode::kReplace ? XATTR_REPLACE : 0;
    if (lsetxattr(path.c_str(), name.c_str(), value.data(), value.size(), flags) == 0) return Status();
    return CallError(errno, "set attribute " + name + " of", path);
  }

  Status RemoveXattr(const std::string& path, const std::string& name, Deadline) override {
    if (lremovexattr(path.c_str(), name.c_str()) == 0) return Status();
    return CallError(errno, "remove attribute " + name + " of", path);
  }

  Result<Capacity> StatCapacity(Deadline) override {
    struct statvfs st;
    if (statvfs("/", &st) != 0) return CallError(errno, "statvfs", "/");
    const uint64_t total = st.f_blocks * st.f_frsize, free = st.f_bavail * st.f_frsize;
    return Capacity{.total_bytes = total, .used_bytes = total - st.f_bfree * st.f_frsize, .free_bytes = free};
  }

  Result<std::unique_ptr<Reader>> Open(const std::string& path, Deadline) override {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (!fd.is_valid()) return CallError(errno, "open", path);
    struct stat st;
    if (fstat(fd.get(), &st) != 0) return CallError(errno, "open", path);
    if (S_ISDIR(st.st_mode)) return PosixError(EISDIR, "open " + path + ": is a directory");
    return std::unique_ptr<Reader>(new LocalReader(path, std::move(fd), static_cast<uint64_t>(st.st_size)));
  }

  Result<std::unique_ptr<Writer>> Create(const std::string& path, const CreateOptions& options, Deadline) override {
    Result<FileStatus> existing = StatPath(path);
    if (existing.ok() && existing->type == FileStatus::Type::kDirectory) {
      return PosixError(EISDIR, "create " + path + ": is a directory");
    }
    if (existing.ok() && options.mode == CreateMode::kFailIfExists) return PosixError(EEXIST, "create " + path);
    if (!existing.ok() && existing.status().code() != StatusCode::kNotFound) return existing.status();
    std::string hidden;
    ASSIGN_OR_RETURN(UniqueFd fd, CreateHidden(path, &hidden));
    if (fchmod(fd.get(), options.permission) != 0) return CallError(errno, "chmod", hidden);
    return std::unique_ptr<Writer>(new LocalWriter(std::move(hidden), path, options.mode, std::move(fd), 0));
  }

  Result<std::unique_ptr<Writer>> Append(const std::string& path, Deadline) override {
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (!fd.is_valid()) return CallError(errno, "append to", path);
    struct stat st;
    if (fstat(fd.get(), &st) != 0) return CallError(errno, "append to", path);
    const auto length = static_cast<uint64_t>(st.st_size);
    return std::unique_ptr<Writer>(new LocalWriter(path, "", CreateMode::kOverwrite, std::move(fd), length));
  }

  Status Truncate(const std::string& path, uint64_t length, Deadline) override {
    ASSIGN_OR_RETURN(const FileStatus status, StatPath(path));
    if (status.type == FileStatus::Type::kDirectory) return PosixError(EISDIR, "truncate " + path);
    if (length > status.length_bytes) return PosixError(EINVAL, "truncate " + path + ": longer than the file");
    return ::truncate(path.c_str(), static_cast<off_t>(length)) == 0 ? Status() : CallError(errno, "truncate", path);
  }

  Result<std::vector<BlockLocation>> Locate(const std::string& path, ByteRange range, Deadline) override {
    ASSIGN_OR_RETURN(const FileStatus status, StatPath(path));
    if (status.type == FileStatus::Type::kDirectory) return PosixError(EISDIR, "locate " + path);
    std::vector<BlockLocation> blocks;
    if (range.offset >= status.length_bytes || range.length == 0) return blocks;
    blocks.push_back({.offset_bytes = 0, .length_bytes = status.length_bytes, .hosts = {"localhost:0"}});
    return blocks;
  }

  // No need to wait: a writer holds a lock on its file, and whoever has a file without a name open keeps its bytes
  // here.
  Result<size_t> RemoveStaleParts(const std::string& directory, Duration, Deadline) override {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesBehind(directory, ""));
    size_t removed = 0;
    for (const std::string& name : names) {
      const std::optional<PartName> part = ParsePartName(name);
      if (!part.has_value() || part->is_stripe_folder) continue;
      const std::string path = Join(directory, name);
      const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
      if (!fd.is_valid() || flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
      if (unlink(path.c_str()) == 0) ++removed;
    }
    return removed;
  }

  bool IsVisibleName(std::string_view name) const override { return !ParsePartName(name).has_value(); }

 private:
  // With the lock that says that its writer lives.
  Result<UniqueFd> CreateHidden(const std::string& path, std::string* hidden) const {
    while (true) {
      *hidden = SiblingOf(path, TemporaryName(NameOf(path), MakeWriterId(clock_)));
      UniqueFd fd(::open(hidden->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      if (!fd.is_valid()) return CallError(errno, "create", path);
      struct stat st;
      // Without locks, as on some network filesystems, nobody removes it either.
      const bool is_taken = flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
      if (is_taken || (fstat(fd.get(), &st) == 0 && st.st_nlink == 0)) continue;  // removed before the lock was there
      return fd;
    }
  }

  static std::string Join(const std::string& directory, const std::string& name) {
    return directory.ends_with('/') ? directory + name : directory + "/" + name;
  }

  static Result<FileStatus> StatPath(const std::string& path) {
    struct stat st;
    if (lstat(path.c_str(), &st) != 0) return CallError(errno, "stat", path);
    FileStatus status = ToStatus(path, st);
    if (status.type == FileStatus::Type::kSymlink) {
      std::string target(4096, '\0');
      const ssize_t size = readlink(path.c_str(), target.data(), target.size());
      if (size >= 0) status.symlink_target = target.substr(0, static_cast<size_t>(size));
    }
    return status;
  }

  static Result<std::vector<std::string>> NamesBehind(const std::string& path, const std::string& start_after) {
    struct Closer {
      void operator()(DIR* directory) const { closedir(directory); }
    };
    std::unique_ptr<DIR, Closer> directory(opendir(path.c_str()));
    if (directory == nullptr) return CallError(errno, "list", path);
    std::vector<std::string> names;
    while (const dirent* entry = readdir(directory.get())) {
      std::string name = entry->d_name;
      if (name == "." || name == ".." || name <= start_after) continue;
      names.push_back(std::move(name));
    }
    return names;
  }

  const Clock& clock_;
};

}  // namespace

std::unique_ptr<FileSystem> MakeLocalFileSystem(const Clock& clock) { return std::make_unique<LocalFileSystem>(clock); }

}  // namespace paceline::hdfs
