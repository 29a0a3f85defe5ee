#include "tests/agent/mount_namespace.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstring>

namespace paceline::agent {
namespace {

std::string& Reason() {
  static std::string reason = "the mount namespace was not set up";
  return reason;
}

bool WriteTo(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  const bool is_written = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (fd >= 0) close(fd);
  return is_written;
}

// Without root a user namespace may be allowed, in which we are.
bool EnterNamespace() {
  if (unshare(CLONE_NEWNS) == 0) return true;
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  return WriteTo("/proc/self/setgroups", "deny") && WriteTo("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1") &&
         WriteTo("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1");
}

class MountNamespace final : public testing::Environment {
 public:
  void SetUp() override {
    if (!EnterNamespace()) {
      Reason() = std::string("cannot have a mount namespace here: ") + strerror(errno);
    } else if (mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      Reason() = std::string("cannot make mounts private: ") + strerror(errno);
    } else {
      Reason().clear();
    }
  }
};

const auto* const kEnvironment = testing::AddGlobalTestEnvironment(new MountNamespace);

}  // namespace

const std::string& WhyNoMounts() { return Reason(); }

}  // namespace paceline::agent
