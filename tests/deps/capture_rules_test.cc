#include "lib/deps/capture_rules.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace paceline::deps {
namespace {

TEST(CaptureRules, NameWhatStaysBehind) {
  const CaptureRules rules({"*.a", "/opt/venv/doc*"}, {"/opt/venv"});
  const struct {
    const char* path;
    uint32_t mode;
    const char* reason;
  } cases[] = {
      {"/opt/venv/bin/python", S_IFLNK | 0777, ""},
      {"/opt/venv/lib/x.so", S_IFREG | 0644, ""},
      {"/opt/venv/lib/__pycache__/x.pyc", S_IFREG, ""},
      {"/opt/venv/lib/libx.a", S_IFREG, "excluded"},
      {"/opt/venv/doc/deep/er", S_IFREG, "excluded"},
      {"/var/cache/apt/x", S_IFREG, "cache"},
      {"/var/cached", S_IFREG, ""},
      {"/var/log/dpkg.log", S_IFREG, "log"},
      {"/tmp/x", S_IFREG, "runtime"},
      {"/tmpx", S_IFREG, ""},
      {"/etc/resolv.conf", S_IFREG, "runtime"},
      {"/root/.cache", S_IFDIR, "cache"},
      {"/root/.netrc", S_IFREG, "credential"},
      {"/opt/me/.ssh", S_IFDIR, "credential"},
      {"/opt/me/.sshx", S_IFDIR, ""},
      {"/opt/sock", S_IFSOCK, "socket"},
      {"/opt/null", S_IFCHR, "device"},
      {"/opt/pipe", S_IFIFO, ""},
      {"/opt/.wh.x", S_IFREG, "reserved"},
      {"/opt/venv/.paceline-dependencies", S_IFREG, "own"},
      {"/opt/venv/.paceline-recording", S_IFREG, "own"},
  };
  for (const auto& c : cases) EXPECT_EQ(rules.DropReason(c.path, c.mode), c.reason) << c.path;
}

TEST(CaptureRules, APlaceThatIsCapturedOnPurposeIsCaptured) {
  const CaptureRules rules({}, {"/tmp/venv"});
  EXPECT_EQ(rules.DropReason("/tmp/venv/bin/x", S_IFREG), "");
  EXPECT_EQ(rules.DropReason("/var/log/x", S_IFREG), "log");
}

}  // namespace
}  // namespace paceline::deps
