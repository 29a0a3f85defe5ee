#include "lib/deps/tree_view.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

namespace paceline::deps {
namespace {

constexpr size_t kMaxTargetBytes = 4096;
constexpr size_t kMaxListBytes = 64U << 10;

int OpenInRoot(int root, const std::string& path, int flags) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  for (;;) {
    const long fd = syscall(SYS_openat2, root, path.c_str(), &how, sizeof how);
    // EAGAIN: something on the way was renamed at that moment.
    if (fd >= 0 || (errno != EINTR && errno != EAGAIN)) return static_cast<int>(fd);
  }
}

// The object behind a descriptor of O_PATH, by a name that every call takes.
std::string NameOf(const UniqueFd& fd) { return fmt::format("/proc/self/fd/{}", fd.get()); }

}  // namespace

Result<TreeView> TreeView::Below(const std::string& folder) {
  UniqueFd root(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!root.is_valid()) return ErrnoStatus(errno, "open " + folder);
  TreeView view;
  view.root_ = std::make_shared<const UniqueFd>(std::move(root));
  return view;
}

Result<UniqueFd> TreeView::Open(const std::string& path, int flags) const {
  const int all = flags | O_NOFOLLOW | ((flags & O_PATH) != 0 ? 0 : O_NONBLOCK);
  UniqueFd fd(is_machine() ? ::open(path.c_str(), all | O_CLOEXEC) : OpenInRoot(root_->get(), path, all));
  if (!fd.is_valid()) return ErrnoStatus(errno, "open " + path);
  return fd;
}

Status TreeView::Stat(const std::string& path, struct stat* st) const {
  if (is_machine()) return ::lstat(path.c_str(), st) == 0 ? Status() : ErrnoStatus(errno, "stat " + path);
  ASSIGN_OR_RETURN(const UniqueFd fd, Open(path, O_PATH));
  return ::fstat(fd.get(), st) == 0 ? Status() : ErrnoStatus(errno, "stat " + path);
}

Result<std::string> TreeView::ReadLink(const std::string& path) const {
  std::string target(kMaxTargetBytes, '\0');
  ssize_t size = 0;
  if (is_machine()) {
    size = ::readlink(path.c_str(), target.data(), target.size());
  } else {
    ASSIGN_OR_RETURN(const UniqueFd fd, Open(path, O_PATH));
    size = ::readlinkat(fd.get(), "", target.data(), target.size());
  }
  if (size < 0) return ErrnoStatus(errno, "read the link " + path);
  target.resize(static_cast<size_t>(size));
  return target;
}

Result<std::vector<std::string>> TreeView::ListXattrs(const std::string& path) const {
  std::string list(kMaxListBytes, '\0');
  ssize_t size = 0;
  if (is_machine()) {
    size = ::llistxattr(path.c_str(), list.data(), list.size());
  } else {
    ASSIGN_OR_RETURN(const UniqueFd fd, Open(path, O_PATH));
    size = ::listxattr(NameOf(fd).c_str(), list.data(), list.size());
  }
  std::vector<std::string> names;
  if (size < 0 && errno == ENOTSUP) return names;
  if (size < 0) return ErrnoStatus(errno, "list the attributes of " + path);
  for (size_t at = 0; at < static_cast<size_t>(size); at += names.back().size() + 1) {
    names.emplace_back(list.c_str() + at);
  }
  return names;
}

Result<std::string> TreeView::ReadXattr(const std::string& path, const std::string& name) const {
  std::string value(kMaxListBytes, '\0');
  ssize_t size = 0;
  if (is_machine()) {
    size = ::lgetxattr(path.c_str(), name.c_str(), value.data(), value.size());
  } else {
    ASSIGN_OR_RETURN(const UniqueFd fd, Open(path, O_PATH));
    size = ::getxattr(NameOf(fd).c_str(), name.c_str(), value.data(), value.size());
  }
  if (size < 0) return ErrnoStatus(errno, "read attribute " + name + " of " + path);
  value.resize(static_cast<size_t>(size));
  return value;
}

bool TreeView::Exists(const std::string& path) const {
  if (is_machine()) return ::access(path.c_str(), F_OK) == 0;
  return UniqueFd(OpenInRoot(root_->get(), path, O_PATH)).is_valid();
}

}  // namespace paceline::deps
