#include "snapshotter/kernel_mounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::snapshotter {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(MountsBelow, TheLastComesFirstAndNamesAreUnescaped) {
  const std::string table =
      "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "30 24 0:40 / /run/p/1/fuse ro - fuse.paceline x ro\n"
      "31 24 0:41 / /run/p/1/l/0 ro - erofs x ro\n"
      "cut\n"
      "32 24 0:42 / /run/p/12/l/0 ro - erofs x ro\n"
      "33 24 0:43 / /run/with\\040blank/x ro - erofs x ro\n"
      "34 24 0:44 / /run/p/1 ro - erofs x ro";
  EXPECT_THAT(MountsBelow(table, "/run/p/1"), ElementsAre("/run/p/1", "/run/p/1/l/0", "/run/p/1/fuse"));
  EXPECT_THAT(MountsBelow(table, "/run/with blank"), ElementsAre("/run/with blank/x"));
  EXPECT_THAT(MountsBelow(table, "/none"), IsEmpty());
  for (size_t size = 0; size < table.size(); ++size) MountsBelow(table.substr(0, size), "/run/p/1");
}

TEST(MountOverlay, TooManyLayersAreRefusedHere) {
  OverlayDirs dirs;
  for (int i = 0; i < 1000; ++i) dirs.lower.push_back("l/" + std::to_string(i));
  EXPECT_EQ(MountOverlay(dirs, "/nowhere").code(), StatusCode::kInvalidArgument);
}

TEST(Unmount, NothingThereIsNotFound) {
  EXPECT_EQ(Unmount("/nowhere/at/all", Detach::kNo).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace paceline::snapshotter
