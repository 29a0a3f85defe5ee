#include "lib/deps/tree_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/temporary_folder.h"

namespace paceline::deps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

class TreeChecksTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(root_ + "/" + name).parent_path());
    std::ofstream(root_ + "/" + name) << text;
  }
  TreeFindings Check(std::vector<std::string> allowed = {}, std::pair<int, int> glibc = {99, 0}) const {
    const CaptureRules rules({}, {root_});
    const Result<TreeScan> scan = ScanTrees({root_}, rules);
    CaptureOptions options;
    options.roots = {root_};
    const Result<CapturedTree> tree = CaptureTree(TreeScan(), *scan, options);
    EXPECT_TRUE(tree.ok()) << tree.status().ToString();
    const Result<TreeFindings> findings = CheckTree(*tree, {{root_}, std::move(allowed), glibc});
    EXPECT_TRUE(findings.ok()) << findings.status().ToString();
    return *findings;
  }
  fakes::TemporaryFolder folder_;
  const std::string root_ = folder_ / "root";
};

TEST_F(TreeChecksTest, EditableInstallsAreRefused) {
  Write("lib/__editable__.x.pth", "/src/x\n");
  Write("lib/y.egg-link", "/src/y\n.");
  Write("lib/z.dist-info/direct_url.json", R"({"dir_info": {"editable": true}, "url": "file:///src/z"})");
  Write("lib/fine.pth", "import sys\n" + root_ + "/lib/other\nrelative\n");
  Write("lib/w.dist-info/direct_url.json", R"({"archive_info": {}, "url": "file:///src/w.whl"})");
  const TreeFindings findings = Check();
  EXPECT_THAT(findings.refusals,
              ElementsAre(HasSubstr("__editable__.x.pth"), HasSubstr("/src/y"), HasSubstr("/src/z")));
}

TEST_F(TreeChecksTest, SecretsAreRefusedUnlessAllowed) {
  Write("pip.conf", "index-url = https://me:hunter2@h/simple\n");
  ASSERT_EQ(Check().refusals.size(), 1U);
  EXPECT_THAT(Check().refusals[0], HasSubstr("--allow-secret"));
  EXPECT_THAT(Check().refusals[0], testing::Not(HasSubstr("hunter2")));
  EXPECT_THAT(Check({"*/pip.conf"}).refusals, IsEmpty());
}

TEST_F(TreeChecksTest, LinksThatLeadOutAreListed) {
  Write("lib/a", "");
  fs::create_directories(root_ + "/bin");
  fs::create_symlink("/bin/sh", root_ + "/bin/out");
  fs::create_symlink("../lib/a", root_ + "/bin/in");
  fs::create_symlink("../../no/where", root_ + "/bin/dead");
  const TreeFindings findings = Check();
  EXPECT_THAT(findings.external_links, ElementsAre(ExternalLink{root_ + "/bin/out", "/bin/sh"}));
  EXPECT_THAT(DeadLinks(findings.external_links), IsEmpty());
  EXPECT_THAT(DeadLinks({{"/a/b", "../no/where"}}), ElementsAre(ExternalLink{"/a/b", "../no/where"}));
}

TEST_F(TreeChecksTest, BinariesForANewerLibcAreTold) {
  fs::create_directories(root_);
  fs::copy_file("/proc/self/exe", root_ + "/program");
  EXPECT_THAT(Check().warnings, IsEmpty());
  EXPECT_THAT(Check({}, {2, 0}).warnings, ElementsAre(HasSubstr("needs glibc 2.")));
  Write("broken.so", "\177ELF\2\1\1" + std::string(100, '\xff'));
  EXPECT_EQ(Check().warnings.size(), 1U);
}

TEST(TreeChecks, LinkTargetsAreResolvedByName) {
  EXPECT_EQ(LinkTarget("/a/b/c", "../d"), "/a/d");
  EXPECT_EQ(LinkTarget("/a/b/c", "/x/./y/"), "/x/y");
  EXPECT_EQ(LinkTarget("/a", "../../x"), "/x");
  EXPECT_TRUE(IsBelowRoots("/a/b", {"/a"}));
  EXPECT_TRUE(IsBelowRoots("/a", {"/a"}));
  EXPECT_FALSE(IsBelowRoots("/ab", {"/a"}));
}

}  // namespace
}  // namespace paceline::deps
