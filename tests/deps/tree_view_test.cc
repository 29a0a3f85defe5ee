#include "lib/deps/tree_view.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lib/deps/tree_scan.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::deps {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
namespace fs = std::filesystem;

class TreeViewTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "root/opt/venv/lib");
    std::ofstream(folder_ / "root/opt/venv/lib/file") << "inside";
    std::ofstream(folder_ / "secret") << "outside";
    Result<TreeView> view = TreeView::Below(folder_ / "root");
    ASSERT_TRUE(view.ok()) << view.status().ToString();
    view_ = *std::move(view);
  }
  std::string Read(const std::string& path) const {
    const Result<UniqueFd> file = view_.Open(path, O_RDONLY);
    if (!file.ok()) return "error";
    std::string text(64, '\0');
    text.resize(static_cast<size_t>(std::max<ssize_t>(read(file->get(), text.data(), text.size()), 0)));
    return text;
  }

  fakes::TemporaryFolder folder_;
  TreeView view_;
};

TEST_F(TreeViewTest, NoPathLeadsOutOfTheFolder) {
  EXPECT_EQ(Read("/opt/venv/lib/file"), "inside");
  fs::create_symlink(folder_.path(), folder_ / "root/opt/venv/absolute");
  fs::create_symlink("../../../..", folder_ / "root/opt/venv/upwards");
  fs::create_symlink(folder_ / "secret", folder_ / "root/opt/venv/last");
  fs::create_symlink("/opt/venv/lib", folder_ / "root/opt/venv/own");
  const std::string cases[] = {"/opt/venv/absolute/secret", "/opt/venv/upwards/secret", "/opt/venv/last", "/../secret",
                               "/opt/../../secret"};
  for (const std::string& path : cases) {
    EXPECT_EQ(Read(path), "error") << path;
    struct stat st;
    const bool is_link = path == "/opt/venv/last";
    EXPECT_EQ(view_.Stat(path, &st).ok(), is_link) << path;
    EXPECT_FALSE(view_.Exists(path)) << path;
  }
  // What the folder's own root resolves stays good.
  EXPECT_EQ(Read("/opt/venv/own/file"), "inside");
  EXPECT_TRUE(view_.Exists("/opt/venv/own/file"));
  EXPECT_EQ(*view_.ReadLink("/opt/venv/own"), "/opt/venv/lib");
}

TEST_F(TreeViewTest, AFolderThatIsSwappedForALinkShowsNothingElse) {
  fs::create_directories(folder_ / "evil");
  std::ofstream(folder_ / "evil/file") << "outside";
  fs::create_symlink(folder_ / "evil", folder_ / "root/opt/venv/swap");
  std::atomic<bool> is_over{false};
  std::thread swapper([&] {
    const std::string a = folder_ / "root/opt/venv/lib", b = folder_ / "root/opt/venv/swap", c = folder_ / "root/tmp";
    while (!is_over) {
      rename(a.c_str(), c.c_str());
      rename(b.c_str(), a.c_str());
      rename(a.c_str(), b.c_str());
      rename(c.c_str(), a.c_str());
    }
  });
  for (int i = 0; i < 5000; ++i) ASSERT_NE(Read("/opt/venv/lib/file"), "outside");
  is_over = true;
  swapper.join();
}

TEST_F(TreeViewTest, FactsAreThoseOfThePlainPath) {
  fs::create_symlink("/usr/bin/python3", folder_ / "root/opt/venv/python");
  for (const char* path : {"/opt/venv", "/opt/venv/lib/file", "/opt/venv/python"}) {
    const Result<FileFacts> seen = FactsOf(view_, path), plain = FactsOf(TreeView(), folder_ / "root" + path);
    ASSERT_TRUE(seen.ok() && plain.ok()) << path;
    EXPECT_EQ(*seen, *plain) << path;
  }
  EXPECT_EQ(FactsOf(view_, "/nothing").status().code(), StatusCode::kNotFound);
  if (setxattr((folder_ / "root/opt/venv/lib/file").c_str(), "user.kind", "a", 1, 0) != 0)
    GTEST_SKIP() << "this file system takes no user attributes";
  EXPECT_THAT(*view_.ListXattrs("/opt/venv/lib/file"), Contains("user.kind"));
  EXPECT_EQ(*view_.ReadXattr("/opt/venv/lib/file", "user.kind"), "a");
  EXPECT_THAT(*view_.ListXattrs("/opt/venv/python"), testing::Not(Contains("user.kind")));
}

TEST_F(TreeViewTest, ScansNameFilesAsTheContainerDoes) {
  const CaptureRules rules{{}, {"/opt/venv"}};
  const Result<TreeScan> scan = ScanTrees({"/opt/venv", "/opt/none"}, rules, view_);
  ASSERT_TRUE(scan.ok()) << scan.status().ToString();
  std::vector<std::string> paths;
  for (const auto& [path, facts] : scan->files) paths.push_back(path);
  EXPECT_THAT(paths, ElementsAre("/opt/venv", "/opt/venv/lib", "/opt/venv/lib/file"));
  EXPECT_EQ(ScanTrees({"/opt/venv"}, rules, view_, 2).status().code(), StatusCode::kResourceExhausted);
  // It may be moved meanwhile.
  fs::rename(folder_ / "root", folder_ / "moved");
  EXPECT_EQ(ScanTrees({"/opt/venv"}, rules, view_)->files.size(), 3U);
  EXPECT_EQ(TreeView::Below(folder_ / "root").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace paceline::deps
