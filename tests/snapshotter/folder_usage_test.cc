#include "snapshotter/plugin/folder_usage.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/temporary_folder.h"

namespace paceline::snapshotter {
namespace {

TEST(FolderUsage, CountsEachInodeOnceAndFollowsNoLinks) {
  const fakes::TemporaryFolder folder;
  const Result<FolderUsage> empty = MeasureFolder(folder.path());
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->inodes, 1u);
  std::filesystem::create_directories(folder / "a/b");
  std::ofstream(folder / "a/b/file") << std::string(100000, 'x');
  std::filesystem::create_hard_link(folder / "a/b/file", folder / "a/same");
  std::filesystem::create_symlink("/usr", folder / "link");
  const Result<FolderUsage> full = MeasureFolder(folder.path());
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->inodes, 5u);  // itself, a, b, file, link
  EXPECT_GE(full->bytes, 100000u);
  EXPECT_LT(full->bytes, 200000u);
  ASSERT_EQ(truncate((folder / "a/b/file").c_str(), 1 << 30), 0);
  EXPECT_EQ(MeasureFolder(folder.path())->bytes, full->bytes);  // a hole takes nothing
  EXPECT_EQ(MeasureFolder(folder / "none").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace paceline::snapshotter
