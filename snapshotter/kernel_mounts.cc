#include "snapshotter/kernel_mounts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "lib/base/unique_fd.h"

namespace paceline::snapshotter {
namespace {

// One page of options is what mount(2) takes.
constexpr size_t kMaxOptionBytes = 4095;
constexpr int kLoopTries = 16;

Status MountErofsAt(const std::string& source, const std::string& target) {
  if (mount(source.c_str(), target.c_str(), "erofs", MS_RDONLY, nullptr) == 0) return Status();
  const int error = errno;
  // ENOTBLK: no file backing here. ENODEV: no EROFS at all. EINVAL also stands for a stack that is too deep.
  if (error == ENOTBLK || error == ENODEV || error == EINVAL || error == EOPNOTSUPP) {
    return UnimplementedError(fmt::format("mount {} as EROFS: {}", source, strerror(error)));
  }
  return ErrnoStatus(error, "mount " + source + " as EROFS");
}

Result<UniqueFd> AttachLoop(const std::string& file, std::string* device) {
  const UniqueFd backing(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!backing.is_valid()) return ErrnoStatus(errno, "open " + file);
  const UniqueFd control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control.is_valid()) return ErrnoStatus(errno, "open /dev/loop-control");
  for (int i = 0; i < kLoopTries; ++i) {
    const int number = ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) return ErrnoStatus(errno, "get a loop device");
    *device = fmt::format("/dev/loop{}", number);
    UniqueFd loop(open(device->c_str(), O_RDONLY | O_CLOEXEC));
    if (!loop.is_valid()) return ErrnoStatus(errno, "open " + *device);
    loop_config config = {};
    config.fd = static_cast<uint32_t>(backing.get());
    // Gone with the last user: no device is left behind by a crash.
    config.info.lo_flags = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR;
    if (ioctl(loop.get(), LOOP_CONFIGURE, &config) == 0) return loop;
    if (errno != EBUSY) return ErrnoStatus(errno, "attach " + file + " to " + *device);
    // Somebody else took it between the two calls.
  }
  return UnavailableError("no free loop device");
}

// The kernel writes blanks and the like in paths as \040.
std::string Unescape(std::string_view text) {
  std::string path;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 3 < text.size();
    if (!is_escape) {
      path += text[i];
      continue;
    }
    path += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return path;
}

}  // namespace

std::string_view BackingName(Backing backing) { return backing == Backing::kFile ? "file" : "loop"; }

Status MountErofs(const std::string& file, const std::string& target, Backing backing) {
  if (backing == Backing::kFile) return MountErofsAt(file, target);
  std::string device;
  ASSIGN_OR_RETURN(const UniqueFd loop, AttachLoop(file, &device));
  return MountErofsAt(device, target);
}

Status MountOverlay(const OverlayDirs& dirs, const std::string& target) {
  std::string options = "lowerdir=";
  for (size_t i = 0; i < dirs.lower.size(); ++i) options += (i > 0 ? ":" : "") + dirs.lower[i];
  if (!dirs.upper.empty()) options += ",upperdir=" + dirs.upper + ",workdir=" + dirs.work;
  if (options.size() > kMaxOptionBytes) return InvalidArgumentError("too many layers for one overlay mount");
  const unsigned long flags = dirs.upper.empty() ? MS_RDONLY : 0;
  if (mount("paceline", target.c_str(), "overlay", flags, options.c_str()) == 0) return Status();
  return ErrnoStatus(errno, "mount the layers on " + target);
}

Status Unmount(const std::string& target, Detach detach) {
  if (umount2(target.c_str(), UMOUNT_NOFOLLOW | (detach == Detach::kLazily ? MNT_DETACH : 0)) == 0) return Status();
  if (errno == EINVAL || errno == ENOENT) return NotFoundError("nothing is mounted on " + target);
  if (errno == EBUSY) return AbortedError(target + " is in use");
  return ErrnoStatus(errno, "unmount " + target);
}

std::vector<std::string> MountsBelow(std::string_view mountinfo, const std::string& folder) {
  std::vector<std::string> found;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string id, parent, device, root, point;
    if (!(fields >> id >> parent >> device >> root >> point)) continue;
    const std::string path = Unescape(point);
    if (path == folder || path.starts_with(folder + "/")) found.push_back(path);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

Result<std::vector<std::string>> MountsBelow(const std::string& folder) {
  std::ifstream table("/proc/self/mountinfo");
  std::stringstream text;
  text << table.rdbuf();
  if (!table) return UnavailableError("cannot read /proc/self/mountinfo");
  return MountsBelow(text.str(), folder);
}

}  // namespace paceline::snapshotter
