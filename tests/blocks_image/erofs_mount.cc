#include "tests/blocks_image/erofs_mount.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>

namespace paceline::blocks {
namespace {

std::string FindObstacle() {
  if (::geteuid() != 0) return "mounting EROFS images needs root";
  std::ifstream filesystems("/proc/filesystems");
  std::string word;
  bool has_erofs = false;
  while (filesystems >> word) has_erofs = has_erofs || word == "erofs";
  if (!has_erofs) return "this kernel has no EROFS";
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return ErrnoStatus(errno, "no mount namespace of our own").message();
  }
  return "";
}

}  // namespace

const std::string& WhyNoErofs() {
  static const std::string obstacle = FindObstacle();
  return obstacle;
}

Result<TestMount> TestMount::Erofs(const std::string& image, const std::string& target) {
  ::mkdir(target.c_str(), 0755);
  if (::mount(image.c_str(), target.c_str(), "erofs", MS_RDONLY, nullptr) == 0) return TestMount(target);
  if (errno != ENOTBLK) return ErrnoStatus(errno, "mount " + image);
  const std::string command = fmt::format("mount -t erofs -o ro,loop '{}' '{}'", image, target);
  if (std::system(command.c_str()) != 0) return UnavailableError("no loop device for " + image);
  return TestMount(target);
}

Result<TestMount> TestMount::Overlay(const std::vector<std::string>& lower, const std::string& target) {
  ::mkdir(target.c_str(), 0755);
  const std::string options = fmt::format("lowerdir={}", fmt::join(lower, ":"));
  if (::mount("overlay", target.c_str(), "overlay", MS_RDONLY, options.c_str()) != 0) {
    return ErrnoStatus(errno, "mount an overlay");
  }
  return TestMount(target);
}

TestMount::~TestMount() {
  if (!path_.empty()) ::umount2(path_.c_str(), MNT_DETACH);
}

}  // namespace paceline::blocks
