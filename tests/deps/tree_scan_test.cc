#include "lib/deps/tree_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/temporary_folder.h"

namespace paceline::deps {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
namespace fs = std::filesystem;

class TreeScanTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return root_ + "/" + name; }
  void Write(const std::string& name, const std::string& text = "x") const {
    fs::create_directories(fs::path(Path(name)).parent_path());
    std::ofstream(Path(name)) << text;
  }
  TreeScan Scan() const {
    const Result<TreeScan> scan = ScanTrees({root_}, rules_);
    EXPECT_TRUE(scan.ok()) << scan.status().ToString();
    return scan.value_or(TreeScan());
  }
  // Paths below the root.
  std::vector<std::string> Names(const std::vector<std::string>& paths) const {
    std::vector<std::string> names;
    for (const std::string& path : paths) names.push_back(path == root_ ? "" : path.substr(root_.size() + 1));
    return names;
  }

  fakes::TemporaryFolder folder_;
  const std::string root_ = folder_ / "root";
  const CaptureRules rules_{{"*.excluded"}, {root_}};
};

TEST_F(TreeScanTest, AMissingDirectoryIsAsGoodAsAnEmptyOne) {
  EXPECT_THAT(Scan().files, IsEmpty());
  EXPECT_EQ(BaseOf(Scan()), "");
  fs::create_directories(root_);
  EXPECT_EQ(BaseOf(Scan()), "");
  Write("file");
  EXPECT_NE(BaseOf(Scan()), "");
  EXPECT_EQ(ScanTrees({Path("file")}, rules_).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(TreeScanTest, TellsWhatAnInstallDid) {
  Write("kept/a");
  Write("changed", "1");
  Write("gone/deep/er");
  Write("gone-too");
  Write("replaced/by/file");
  Write("moded");
  Write("linked");
  fs::create_symlink("a", Path("link"));
  const TreeScan before = Scan();
  Write("changed", "2");  // of the same size
  fs::remove_all(Path("gone"));
  fs::remove(Path("gone-too"));
  fs::remove_all(Path("replaced"));
  Write("replaced");
  chmod(Path("moded").c_str(), 0755);
  Write("new/file");
  Write("new/x.excluded");
  fs::create_hard_link(Path("linked"), Path("second"));
  fs::remove(Path("link"));
  fs::create_symlink("b", Path("link"));
  const TreeScan after = Scan();
  const TreeChanges changes = CompareScans(before, after);
  // A file that gets another name has another change time: it is stored, with both.
  EXPECT_THAT(Names(changes.written),
              ElementsAre("changed", "link", "linked", "moded", "new", "new/file", "replaced", "second"));
  EXPECT_THAT(Names(changes.removed), ElementsAre("gone", "gone-too"));
  EXPECT_EQ(after.dropped, (std::map<std::string, uint64_t>{{"excluded", 1}}));
}

TEST_F(TreeScanTest, NamesThatSortBetweenADirectoryAndItsFilesDoNotConfuse) {
  Write("b/c");
  Write("b-x");
  const TreeScan before = Scan();
  fs::remove_all(Path("b"));
  fs::remove(Path("b-x"));
  EXPECT_THAT(Names(CompareScans(before, Scan()).removed), ElementsAre("b", "b-x"));
}

TEST_F(TreeScanTest, NothingDoneIsNoChange) {
  Write("a/b");
  const TreeScan scan = Scan();
  const TreeChanges changes = CompareScans(scan, Scan());
  EXPECT_THAT(changes.written, IsEmpty());
  EXPECT_THAT(changes.removed, IsEmpty());
}

TEST_F(TreeScanTest, TheBaseIsWhatAnImageWouldShowAgain) {
  Write("a", "1");
  const std::string base = BaseOf(Scan());
  Write("a", "2");  // times are not part of it
  Write("__pycache__/a.pyc");
  Write("b.excluded");
  EXPECT_EQ(BaseOf(Scan()), base);
  Write("a", "22");
  EXPECT_NE(BaseOf(Scan()), base);
}

}  // namespace
}  // namespace paceline::deps
