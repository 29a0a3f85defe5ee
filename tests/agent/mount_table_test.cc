#include "agent/csi/mount_table.h"

#include <gtest/gtest.h>

#include <random>

namespace paceline::agent {
namespace {

constexpr char kTable[] =
    "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "41 22 0:38 / /run/my\\040pods rw,nosuid - tmpfs paceline-scratch rw,size=64k\n"
    "42 22 254:0 /var/state/x /mnt/bind ro,nosuid shared:1 master:2 - ext4 /dev/vda rw\n"
    "43 41 0:40 / /run/my\\040pods rw - tmpfs  rw\n"
    "44 22 0:41 / /ro rw - squashfs /dev/loop0 ro\n";

TEST(MountTable, ReadsTheKernelsFormat) {
  Result<std::vector<MountEntry>> mounts = ParseMountInfo(kTable);
  ASSERT_TRUE(mounts.ok()) << mounts.status().ToString();
  ASSERT_EQ(mounts->size(), 5u);
  EXPECT_EQ((*mounts)[0], (MountEntry{"/", "/", "ext4", "/dev/vda", false, "254:0"}));
  EXPECT_EQ((*mounts)[1], (MountEntry{"/run/my pods", "/", "tmpfs", "paceline-scratch", false, "0:38"}));
  EXPECT_EQ((*mounts)[2], (MountEntry{"/mnt/bind", "/var/state/x", "ext4", "/dev/vda", true, "254:0"}));
  EXPECT_EQ((*mounts)[3], (MountEntry{"/run/my pods", "/", "tmpfs", "", false, "0:40"}));
  EXPECT_TRUE((*mounts)[4].is_read_only) << "a read-only file system counts as well";
}

TEST(MountTable, FindsTheTopmostMount) {
  std::vector<MountEntry> mounts = *ParseMountInfo(kTable);
  EXPECT_EQ(FindMount(mounts, "/run/my pods")->source, "");
  EXPECT_EQ(FindMount(mounts, "/run"), std::nullopt);
}

TEST(MountTable, RefusesMalformedLines) {
  for (const char* line : {"nonsense", "22 1 254:0 / / rw shared:1 ext4 /dev/vda rw", "22 1 254:0 / / rw - ext4",
                           "22 1 254:0 / relative rw - ext4 /dev/vda rw", "- - - - - - -"}) {
    EXPECT_EQ(ParseMountInfo(line).status().code(), StatusCode::kDataLoss) << line;
  }
}

TEST(MountTable, SurvivesDamage) {
  const std::string table = kTable;
  for (size_t length = 0; length <= table.size(); ++length) (void)ParseMountInfo(table.substr(0, length)).ok();
  std::mt19937 random(7);
  for (int i = 0; i < 5000; ++i) {
    std::string damaged = table;
    for (int flips = 0; flips < 3; ++flips) damaged[random() % damaged.size()] = static_cast<char>(random());
    Result<std::vector<MountEntry>> mounts = ParseMountInfo(damaged);
    if (!mounts.ok()) continue;
    for (const MountEntry& mount : *mounts) EXPECT_EQ(mount.mount_point.front(), '/');
  }
}

}  // namespace
}  // namespace paceline::agent
