#include "snapshotter/mount_place.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/fakes/temporary_folder.h"

namespace paceline::snapshotter {
namespace {

TEST(MountPlace, OnePlaceForAllNamesOfADirectory) {
  fakes::TemporaryFolder folder;
  ASSERT_EQ(mkdir((folder / "a").c_str(), 0755), 0);
  ASSERT_EQ(mkdir((folder / "a/mnt").c_str(), 0755), 0);
  ASSERT_EQ(symlink("a/mnt", (folder / "link").c_str()), 0);
  const std::string plain = FindMountPlace("/run/x", folder / "a/mnt")->folder;
  EXPECT_TRUE(plain.starts_with("/run/x/"));
  for (const char* name : {"a/mnt/", "a//mnt", "a/../a/mnt", "link", "a/mnt/.", "a/mnt///"}) {
    const Result<MountPlace> place = FindMountPlace("/run/x", folder / name);
    ASSERT_TRUE(place.ok()) << name << place.status().ToString();
    EXPECT_EQ(place->folder, plain) << name;
  }
  EXPECT_NE(FindMountPlace("/run/x", folder / "a")->folder, plain);
  EXPECT_EQ(FindMountPlace("/run/x", folder / "none").status().code(), StatusCode::kNotFound);
  std::ofstream(folder / "file") << "x";
  EXPECT_EQ(FindMountPlace("/run/x", folder / "file").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace paceline::snapshotter
