#include "lib/deps/overlay.h"

#include <gtest/gtest.h>

namespace paceline::deps {
namespace {

constexpr char kTable[] =
    "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "50 22 0:40 / /run/p/state/ab/l/0 ro,relatime - erofs /x rw\n"
    "51 22 0:41 / /run/p/top ro - overlay paceline ro\n"
    "52 22 0:42 / /opt/my\\040venv rw,nosuid shared:3 master:4 - overlay paceline-deps rw\n"
    "53 22 0:43 / /other rw - overlay overlay rw\n"
    "broken\n";

TEST(Overlay, FindsMountsInTheTable) {
  EXPECT_EQ(FindErofs(kTable, "/run/p/state"), "/run/p/state/ab/l/0");
  EXPECT_EQ(FindErofs(kTable, "/run/p/stat"), "");
  EXPECT_TRUE(HasOverlay(kTable, "/opt/my venv"));
  EXPECT_FALSE(HasOverlay(kTable, "/other"));
  EXPECT_FALSE(HasOverlay(kTable, "/run/p/top"));
}

TEST(Overlay, ReadsDamagedTables) {
  const std::string table = kTable;
  for (size_t i = 0; i < table.size(); ++i) {
    FindErofs(table.substr(0, i), "/run");
    std::string flipped = table;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x55);
    HasOverlay(flipped, "/opt");
  }
}

TEST(Overlay, APlaceFollowsFromItsRoots) {
  const OverlayPlace place = PlaceOf({"/a", "/b"}, "/run/x", "/var/x");
  EXPECT_EQ(place.folder, PlaceOf({"/a", "/b"}, "/run/x", "/var/x").folder);
  EXPECT_NE(place.folder, PlaceOf({"/a"}, "/run/x", "/var/x").folder);
  EXPECT_EQ(place.folder.substr(0, 7), "/run/x/");
}

}  // namespace
}  // namespace paceline::deps
