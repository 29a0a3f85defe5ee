#include "agent/csi/volume_host.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "lib/base/unique_fd.h"

namespace paceline::agent {
namespace {

constexpr size_t kLargestStateFileBytes = 1024 * 1024;

// A path's parent folder, held open, and its last component: what the *at() calls take. `display` is for messages.
struct OpenParent {
  UniqueFd fd;
  std::string leaf;
  std::string display;

  // Names the leaf through the descriptor for calls that only take paths. The last component is not a link's content,
  // so such a call still must not follow links.
  std::string ProcPath() const { return fmt::format("/proc/self/fd/{}/{}", fd.get(), leaf); }
};

unsigned long AccessFlag(MountAccess access) {
  return access == MountAccess::kReadOnly ? static_cast<unsigned long>(MS_RDONLY) : 0UL;
}

std::string ProcPath(const UniqueFd& fd) { return fmt::format("/proc/self/fd/{}", fd.get()); }

Status OpenError(int error, const std::string& path) {
  if (error == ENOTDIR || error == ELOOP) {
    return InvalidArgumentError(fmt::format("{}: a component is a symbolic link or not a folder", path));
  }
  return ErrnoStatus(error, path);
}

Result<std::string> ReadAll(int fd, size_t limit_bytes, const std::string& what) {
  std::string bytes;
  char piece[64 * 1024];
  while (true) {
    ssize_t got = read(fd, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, what);
    if (got == 0) return bytes;
    bytes.append(piece, static_cast<size_t>(got));
    if (bytes.size() > limit_bytes)
      return ResourceExhaustedError(fmt::format("{} is over {} bytes", what, limit_bytes));
  }
}

Status WriteAll(int fd, std::string_view bytes, const std::string& what) {
  while (!bytes.empty()) {
    ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, what);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return Status();
}

// The kernel hands the table out piece by piece, so a mount that comes or goes meanwhile can hide another line: read
// until two readings agree.
Result<std::vector<MountEntry>> ReadMountTable() {
  constexpr int kAttempts = 5;
  constexpr size_t kLargestTableBytes = 64 * 1024 * 1024;
  std::string previous;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    UniqueFd fd(open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
    if (!fd.is_valid()) return ErrnoStatus(errno, "/proc/self/mountinfo");
    ASSIGN_OR_RETURN(std::string text, ReadAll(fd.get(), kLargestTableBytes, "/proc/self/mountinfo"));
    if (attempt > 0 && text == previous) break;
    previous = std::move(text);
  }
  return ParseMountInfo(previous);
}

struct DirectoryCloser {
  void operator()(DIR* directory) const { closedir(directory); }
};

Result<std::vector<std::string>> NamesIn(UniqueFd fd, const std::string& what) {
  std::unique_ptr<DIR, DirectoryCloser> directory(fdopendir(fd.get()));
  if (directory == nullptr) return ErrnoStatus(errno, what);
  (void)fd.Release();  // closedir closes it
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const struct dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return ErrnoStatus(errno, what);
  return names;
}

// Empties one folder tree, never crossing into another file system and never following a link. A tenant may have made a
// tree as deep as he likes, while descriptors and stack are limited: what lies deeper than kDeepest is moved up to the
// top folder and removed in another pass.
class TreeRemover {
 public:
  TreeRemover(int top_fd, dev_t device) : top_fd_(top_fd), device_(device) {}

  Status Run(const std::string& what) {
    do {
      moved_up_ = 0;
      RETURN_IF_ERROR(RemoveContents(top_fd_, 0, what));
    } while (moved_up_ > 0);
    return Status();
  }

 private:
  static constexpr int kDeepest = 64;

  Status RemoveContents(int fd, int depth, const std::string& what) {
    UniqueFd listing(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!listing.is_valid()) return ErrnoStatus(errno, what);
    ASSIGN_OR_RETURN(std::vector<std::string> names, NamesIn(std::move(listing), what));
    for (const std::string& name : names) {
      const std::string path = what + "/" + name;
      if (unlinkat(fd, name.c_str(), 0) == 0 || errno == ENOENT) continue;
      if (errno != EISDIR && errno != EPERM) return ErrnoStatus(errno, path);
      RETURN_IF_ERROR(depth == kDeepest ? MoveUp(fd, name, path) : RemoveFolder(fd, name, depth, path));
    }
    return Status();
  }

  Status RemoveFolder(int parent, const std::string& name, int depth, const std::string& path) {
    UniqueFd child(openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!child.is_valid() || fstat(child.get(), &info) != 0) return ErrnoStatus(errno, path);
    if (info.st_dev != device_) return AbortedError(path + " is on another file system");
    RETURN_IF_ERROR(RemoveContents(child.get(), depth + 1, path));
    if (unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) return ErrnoStatus(errno, path);
    return Status();
  }

  Status MoveUp(int parent, const std::string& name, const std::string& path) {
    while (true) {
      const std::string moved = fmt::format("deep-{}", next_name_++);
      if (renameat2(parent, name.c_str(), top_fd_, moved.c_str(), RENAME_NOREPLACE) == 0) break;
      if (errno != EEXIST) return ErrnoStatus(errno, path);
    }
    ++moved_up_;
    return Status();
  }

  const int top_fd_;
  const dev_t device_;
  int moved_up_ = 0;
  int next_name_ = 0;
};

class LinuxVolumeHost final : public VolumeHost {
 public:
  explicit LinuxVolumeHost(std::vector<std::string> roots) : roots_(std::move(roots)) {}

  Result<std::optional<MountEntry>> MountAt(const std::string& path) override;
  Result<std::vector<MountEntry>> Mounts() override { return ReadMountTable(); }
  Status MountTmpfs(const std::string& target, const TmpfsOptions& options) override;
  Status BindMount(const std::string& source, const std::string& target) override;
  Status SetBindAccess(const std::string& target, MountAccess access) override;
  Status Unmount(const std::string& target) override;
  Status MakeDirectory(const std::string& path, unsigned mode) override;
  Result<bool> DirectoryExists(const std::string& path) override;
  Status RemoveDirectory(const std::string& path) override;
  Status RemoveTree(const std::string& path) override;
  Result<std::vector<std::string>> ListDirectory(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Result<std::string> ReadFile(const std::string& path) override;
  Result<std::string> ReadFileStart(const std::string& path, size_t max_bytes) override;
  Status WriteFile(const std::string& path, std::string_view bytes, unsigned mode) override;
  Status RemoveFile(const std::string& path) override;
  Result<uint64_t> FreeBytes(const std::string& path) override;

 private:
  Result<OpenParent> OpenParentOf(const std::string& path) const;
  Result<UniqueFd> OpenDirectory(const std::string& path, int flags) const;
  Result<UniqueFd> OpenFile(const std::string& path) const;

  const std::vector<std::string> roots_;
};

Result<OpenParent> LinuxVolumeHost::OpenParentOf(const std::string& path) const {
  const std::string* root = nullptr;
  for (const std::string& candidate : roots_) {
    if (path.size() > candidate.size() + 1 && path.compare(0, candidate.size(), candidate) == 0 &&
        path[candidate.size()] == '/') {
      root = &candidate;
    }
  }
  if (root == nullptr) return InvalidArgumentError(path + " is outside the folders of kubelet and of our state");

  UniqueFd folder(open(root->c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_valid()) return ErrnoStatus(errno, *root);
  std::string_view rest = std::string_view(path).substr(root->size() + 1);
  while (true) {
    const size_t slash = rest.find('/');
    const std::string component(rest.substr(0, slash));
    if (component.empty() || component == "." || component == "..") {
      return InvalidArgumentError(path + " is not a plain path");
    }
    if (slash == std::string_view::npos) return OpenParent{std::move(folder), component, path};
    UniqueFd next(openat(folder.get(), component.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next.is_valid()) return OpenError(errno, path);
    folder = std::move(next);
    rest.remove_prefix(slash + 1);
  }
}

Result<UniqueFd> LinuxVolumeHost::OpenDirectory(const std::string& path, int flags) const {
  ASSIGN_OR_RETURN(OpenParent parent, OpenParentOf(path));
  UniqueFd fd(openat(parent.fd.get(), parent.leaf.c_str(), flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.is_valid()) return OpenError(errno, path);
  return fd;
}

Result<std::optional<MountEntry>> LinuxVolumeHost::MountAt(const std::string& path) {
  Result<OpenParent> parent = OpenParentOf(path);
  if (parent.status().code() == StatusCode::kNotFound) return std::optional<MountEntry>();
  if (!parent.ok()) return parent.status();
  // The table shows real paths, and links in a root are allowed: ask the kernel for the parent's real name.
  char real_parent[4096];
  const ssize_t length = readlink(ProcPath(parent->fd).c_str(), real_parent, sizeof real_parent);
  if (length < 0) return ErrnoStatus(errno, path);
  ASSIGN_OR_RETURN(std::vector<MountEntry> mounts, ReadMountTable());
  return FindMount(mounts, std::string(real_parent, static_cast<size_t>(length)) + "/" + parent->leaf);
}

Status LinuxVolumeHost::MountTmpfs(const std::string& target, const TmpfsOptions& options) {
  ASSIGN_OR_RETURN(UniqueFd folder, OpenDirectory(target, O_PATH));
  // As an emptyDir: any user of the pod may write, files belong to who made them.
  std::string data = "mode=0777";
  if (options.size_bytes > 0) data += fmt::format(",size={}", options.size_bytes);
  const unsigned long flags = MS_NOSUID | MS_NODEV | AccessFlag(options.access);
  if (mount(options.source.c_str(), ProcPath(folder).c_str(), "tmpfs", flags, data.c_str()) != 0) {
    return ErrnoStatus(errno, "mount tmpfs on " + target);
  }
  return Status();
}

Status LinuxVolumeHost::BindMount(const std::string& source, const std::string& target) {
  ASSIGN_OR_RETURN(UniqueFd from, OpenDirectory(source, O_PATH));
  ASSIGN_OR_RETURN(UniqueFd onto, OpenDirectory(target, O_PATH));
  if (mount(ProcPath(from).c_str(), ProcPath(onto).c_str(), nullptr, MS_BIND, nullptr) != 0) {
    return ErrnoStatus(errno, fmt::format("bind {} on {}", source, target));
  }
  return Status();
}

Status LinuxVolumeHost::SetBindAccess(const std::string& target, MountAccess access) {
  ASSIGN_OR_RETURN(UniqueFd folder, OpenDirectory(target, O_PATH));
  const unsigned long flags = MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | AccessFlag(access);
  if (mount(nullptr, ProcPath(folder).c_str(), nullptr, flags, nullptr) != 0) {
    return ErrnoStatus(errno, "remount " + target);
  }
  return Status();
}

Status LinuxVolumeHost::Unmount(const std::string& target) {
  Result<OpenParent> parent = OpenParentOf(target);
  if (parent.status().code() == StatusCode::kNotFound) return Status();
  if (!parent.ok()) return parent.status();
  const std::string path = parent->ProcPath();
  constexpr int kMostStacked = 64;
  for (int i = 0; i < kMostStacked; ++i) {
    if (umount2(path.c_str(), UMOUNT_NOFOLLOW) == 0) continue;
    if (errno == EBUSY && umount2(path.c_str(), UMOUNT_NOFOLLOW | MNT_DETACH) == 0) continue;
    if (errno == EINVAL || errno == ENOENT) return Status();  // no mount there (any more)
    return ErrnoStatus(errno, "unmount " + target);
  }
  return InternalError(fmt::format("unmount {}: more than {} mounts on one point", target, kMostStacked));
}

Status LinuxVolumeHost::MakeDirectory(const std::string& path, unsigned mode) {
  ASSIGN_OR_RETURN(OpenParent parent, OpenParentOf(path));
  if (mkdirat(parent.fd.get(), parent.leaf.c_str(), 0700) != 0) {
    if (errno != EEXIST) return ErrnoStatus(errno, "make " + path);
    return OpenDirectory(path, O_PATH).status();
  }
  UniqueFd made(openat(parent.fd.get(), parent.leaf.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!made.is_valid() || fchmod(made.get(), mode) != 0) return ErrnoStatus(errno, "make " + path);
  return Status();
}

Result<bool> LinuxVolumeHost::DirectoryExists(const std::string& path) {
  Result<UniqueFd> folder = OpenDirectory(path, O_PATH);
  if (folder.ok()) return true;
  if (folder.status().code() == StatusCode::kNotFound) return false;
  return folder.status();
}

Status LinuxVolumeHost::RemoveDirectory(const std::string& path) {
  Result<OpenParent> parent = OpenParentOf(path);
  if (parent.status().code() == StatusCode::kNotFound) return Status();
  if (!parent.ok()) return parent.status();
  if (unlinkat(parent->fd.get(), parent->leaf.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return Status();
  return ErrnoStatus(errno, "remove " + path);
}

Status LinuxVolumeHost::RemoveTree(const std::string& path) {
  Result<UniqueFd> folder = OpenDirectory(path, O_RDONLY);
  if (folder.status().code() == StatusCode::kNotFound) return Status();
  if (!folder.ok()) return folder.status();
  struct stat info {};
  if (fstat(folder->get(), &info) != 0) return ErrnoStatus(errno, path);
  RETURN_IF_ERROR(TreeRemover(folder->get(), info.st_dev).Run(path));
  return RemoveDirectory(path);
}

Result<std::vector<std::string>> LinuxVolumeHost::ListDirectory(const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd folder, OpenDirectory(path, O_RDONLY));
  return NamesIn(std::move(folder), path);
}

Status LinuxVolumeHost::Rename(const std::string& from, const std::string& to) {
  ASSIGN_OR_RETURN(OpenParent source, OpenParentOf(from));
  ASSIGN_OR_RETURN(OpenParent target, OpenParentOf(to));
  if (renameat2(source.fd.get(), source.leaf.c_str(), target.fd.get(), target.leaf.c_str(), RENAME_NOREPLACE) != 0) {
    return ErrnoStatus(errno, fmt::format("rename {} to {}", from, to));
  }
  return Status();
}

Result<UniqueFd> LinuxVolumeHost::OpenFile(const std::string& path) const {
  ASSIGN_OR_RETURN(OpenParent parent, OpenParentOf(path));
  // A tenant may have put a pipe at the place of a file in his volume: do not wait for its other end.
  UniqueFd file(openat(parent.fd.get(), parent.leaf.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_valid()) return OpenError(errno, path);
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return ErrnoStatus(errno, path);
  if (!S_ISREG(info.st_mode)) return InvalidArgumentError(path + " is not a regular file");
  return file;
}

Result<std::string> LinuxVolumeHost::ReadFile(const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd file, OpenFile(path));
  return ReadAll(file.get(), kLargestStateFileBytes, path);
}

Result<std::string> LinuxVolumeHost::ReadFileStart(const std::string& path, size_t max_bytes) {
  ASSIGN_OR_RETURN(UniqueFd file, OpenFile(path));
  std::string bytes(max_bytes, '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = read(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, path);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

Status LinuxVolumeHost::WriteFile(const std::string& path, std::string_view bytes, unsigned mode) {
  ASSIGN_OR_RETURN(OpenParent parent, OpenParentOf(path));
  UniqueFd folder(openat(parent.fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_valid()) return ErrnoStatus(errno, path);
  const std::string draft = parent.leaf + ".new";
  UniqueFd file(openat(folder.get(), draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_valid()) return OpenError(errno, path);
  RETURN_IF_ERROR(WriteAll(file.get(), bytes, path));
  if (fchmod(file.get(), mode) != 0) return ErrnoStatus(errno, "write " + path);
  if (fsync(file.get()) != 0 || renameat(folder.get(), draft.c_str(), folder.get(), parent.leaf.c_str()) != 0 ||
      fsync(folder.get()) != 0) {
    return ErrnoStatus(errno, "write " + path);
  }
  return Status();
}

Status LinuxVolumeHost::RemoveFile(const std::string& path) {
  ASSIGN_OR_RETURN(OpenParent parent, OpenParentOf(path));
  UniqueFd folder(openat(parent.fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_valid()) return ErrnoStatus(errno, path);
  if (unlinkat(folder.get(), parent.leaf.c_str(), 0) != 0 && errno != ENOENT)
    return ErrnoStatus(errno, "remove " + path);
  if (fsync(folder.get()) != 0) return ErrnoStatus(errno, "remove " + path);
  return Status();
}

Result<uint64_t> LinuxVolumeHost::FreeBytes(const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd folder, OpenDirectory(path, O_RDONLY));
  struct statvfs info {};
  if (fstatvfs(folder.get(), &info) != 0) return ErrnoStatus(errno, path);
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

}  // namespace

std::unique_ptr<VolumeHost> NewLinuxVolumeHost(std::vector<std::string> roots) {
  return std::make_unique<LinuxVolumeHost>(std::move(roots));
}

}  // namespace paceline::agent
