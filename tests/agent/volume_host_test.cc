#include "agent/csi/volume_host.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/agent/mount_namespace.h"
#include "tests/agent/node_folders.h"

namespace paceline::agent {
namespace {

using ::testing::UnorderedElementsAre;

class VolumeHostTest : public ::testing::Test {
 public:
  ~VolumeHostTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

 protected:
  VolumeHostTest() : root_(MakeTemporaryFolder()), host_(NewLinuxVolumeHost({root_ + "/a", root_ + "/b"})) {
    std::filesystem::create_directories(root_ + "/a");
    std::filesystem::create_directories(root_ + "/b");
    std::filesystem::create_directories(root_ + "/outside");
  }

  static unsigned ModeOf(const std::string& path) {
    struct stat info {};
    return stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
  }

  const std::string root_;
  const std::unique_ptr<VolumeHost> host_;
};

TEST_F(VolumeHostTest, MakesFoldersWithTheirMode) {
  EXPECT_EQ(host_->MakeDirectory(root_ + "/a/x", 0777), Status());
  EXPECT_EQ(ModeOf(root_ + "/a/x"), 0777u) << "whatever the umask";
  EXPECT_EQ(host_->MakeDirectory(root_ + "/a/x", 0700), Status());
  EXPECT_EQ(ModeOf(root_ + "/a/x"), 0777u) << "an existing one is left alone";
  EXPECT_EQ(host_->MakeDirectory(root_ + "/a/none/x", 0700).code(), StatusCode::kNotFound);
  EXPECT_TRUE(*host_->DirectoryExists(root_ + "/a/x"));
  EXPECT_FALSE(*host_->DirectoryExists(root_ + "/a/y"));
  EXPECT_FALSE(*host_->DirectoryExists(root_ + "/a/y/z"));
  EXPECT_EQ(host_->RemoveDirectory(root_ + "/a/x"), Status());
  EXPECT_EQ(host_->RemoveDirectory(root_ + "/a/x"), Status());
}

TEST_F(VolumeHostTest, StaysBelowItsRoots) {
  for (const std::string& path : {root_ + "/outside/x", root_ + "/a/../outside/x", root_ + "/a", root_ + "/ab/x",
                                  root_ + "/a//x", root_ + "/a/./x", std::string("a/x"), std::string()}) {
    EXPECT_EQ(host_->MakeDirectory(path, 0700).code(), StatusCode::kInvalidArgument) << path;
    EXPECT_EQ(host_->RemoveTree(path).code(), StatusCode::kInvalidArgument) << path;
    EXPECT_EQ(host_->WriteFile(path, "x").code(), StatusCode::kInvalidArgument) << path;
    EXPECT_EQ(host_->Unmount(path).code(), StatusCode::kInvalidArgument) << path;
  }
}

TEST_F(VolumeHostTest, FollowsNoLinkBelowARoot) {
  WriteTextFile(root_ + "/outside/precious", "x");
  std::filesystem::create_directory_symlink(root_ + "/outside", root_ + "/a/link");
  EXPECT_EQ(host_->MakeDirectory(root_ + "/a/link/x", 0700).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(host_->MakeDirectory(root_ + "/a/link", 0700).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(host_->RemoveTree(root_ + "/a/link").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(host_->ListDirectory(root_ + "/a/link").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(host_->MountTmpfs(root_ + "/a/link", {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(host_->WriteFile(root_ + "/a/link/f", "x").code(), StatusCode::kInvalidArgument);
  std::filesystem::create_symlink(root_ + "/outside/precious", root_ + "/a/file-link");
  EXPECT_EQ(host_->ReadFile(root_ + "/a/file-link").status().code(), StatusCode::kInvalidArgument);

  std::filesystem::create_directory(root_ + "/a/tree");
  std::filesystem::create_directory_symlink(root_ + "/outside", root_ + "/a/tree/link");
  EXPECT_EQ(host_->RemoveTree(root_ + "/a/tree"), Status());
  EXPECT_EQ(ReadTextFile(root_ + "/outside/precious"), "x");
}

TEST_F(VolumeHostTest, FollowsALinkInTheRootItself) {
  std::filesystem::create_directory_symlink(root_ + "/a", root_ + "/moved");
  std::unique_ptr<VolumeHost> host = NewLinuxVolumeHost({root_ + "/moved"});
  EXPECT_EQ(host->MakeDirectory(root_ + "/moved/x", 0700), Status());
  EXPECT_TRUE(std::filesystem::is_directory(root_ + "/a/x"));
}

TEST_F(VolumeHostTest, ReplacesFilesInOneStep) {
  ASSERT_EQ(host_->MakeDirectory(root_ + "/a/records", 0700), Status());
  const std::string path = root_ + "/a/records/one";
  EXPECT_EQ(host_->ReadFile(path).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(host_->WriteFile(path, "first and longer"), Status());
  EXPECT_EQ(host_->WriteFile(path, "second"), Status());
  EXPECT_EQ(*host_->ReadFile(path), "second");
  EXPECT_THAT(*host_->ListDirectory(root_ + "/a/records"), UnorderedElementsAre("one"));
  EXPECT_EQ(host_->RemoveFile(path), Status());
  EXPECT_EQ(host_->RemoveFile(path), Status());
  WriteTextFile(path, std::string(2 * 1024 * 1024, 'x'));
  EXPECT_EQ(host_->ReadFile(path).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(*host_->ReadFileStart(path, 3), "xxx");
}

TEST_F(VolumeHostTest, RenamesWithoutReplacing) {
  ASSERT_EQ(host_->MakeDirectory(root_ + "/a/x", 0700), Status());
  ASSERT_EQ(host_->MakeDirectory(root_ + "/b/y", 0700), Status());
  EXPECT_EQ(host_->Rename(root_ + "/a/x", root_ + "/b/y").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(host_->Rename(root_ + "/a/x", root_ + "/b/z"), Status());
  EXPECT_TRUE(*host_->DirectoryExists(root_ + "/b/z"));
  EXPECT_FALSE(*host_->DirectoryExists(root_ + "/a/x"));
}

TEST_F(VolumeHostTest, RemovesTreesOfAnyDepth) {
  const std::string top = root_ + "/a/tree";
  ASSERT_EQ(mkdir(top.c_str(), 0700), 0);
  int fd = open(top.c_str(), O_RDONLY | O_DIRECTORY);
  for (int depth = 0; depth < 1500; ++depth) {  // far beyond PATH_MAX and the limit of open files
    ASSERT_EQ(mkdirat(fd, "deeper", 0500), 0);
    const int next = openat(fd, "deeper", O_RDONLY | O_DIRECTORY);
    ASSERT_GE(next, 0);
    close(fd);
    fd = next;
    fchmod(fd, 0700);
    const int file = openat(fd, "deep-0", O_CREAT | O_WRONLY, 0600);  // a name that the remover likes to use itself
    close(file);
  }
  close(fd);
  EXPECT_EQ(host_->RemoveTree(top), Status());
  EXPECT_FALSE(std::filesystem::exists(top));
  EXPECT_EQ(host_->RemoveTree(top), Status());
}

TEST_F(VolumeHostTest, TellsFreeSpace) {
  Result<uint64_t> bytes = host_->FreeBytes(root_ + "/a");
  ASSERT_FALSE(bytes.ok()) << "a root itself is nobody's volume";
  ASSERT_EQ(host_->MakeDirectory(root_ + "/a/x", 0700), Status());
  bytes = host_->FreeBytes(root_ + "/a/x");
  ASSERT_TRUE(bytes.ok());
  EXPECT_GT(*bytes, 0u);
}

class RealMountTest : public VolumeHostTest {
 protected:
  void SetUp() override {
    if (!WhyNoMounts().empty()) GTEST_SKIP() << WhyNoMounts();
    target_ = root_ + "/a/target";
    ASSERT_EQ(host_->MakeDirectory(target_, 0750), Status());
  }

  std::optional<MountEntry> Mounted() {
    Result<std::optional<MountEntry>> mount = host_->MountAt(target_);
    EXPECT_TRUE(mount.ok()) << mount.status().ToString();
    return mount.ok() ? *mount : std::nullopt;
  }

  std::string target_;
};

TEST_F(RealMountTest, MountsATmpfs) {
  EXPECT_EQ(Mounted(), std::nullopt);
  ASSERT_EQ(host_->MountTmpfs(target_, {.source = "test", .size_bytes = 1 << 20}), Status());
  ASSERT_TRUE(Mounted().has_value());
  EXPECT_EQ(Mounted()->fs_type, "tmpfs");
  EXPECT_EQ(Mounted()->source, "test");
  EXPECT_FALSE(Mounted()->is_read_only);
  EXPECT_EQ(ModeOf(target_), 0777u);
  EXPECT_EQ(*host_->FreeBytes(target_), 1u << 20);
  EXPECT_EQ(host_->RemoveDirectory(target_).code(), StatusCode::kUnavailable) << "busy";
  EXPECT_EQ(host_->Unmount(target_), Status());
  EXPECT_EQ(host_->Unmount(target_), Status());
  EXPECT_EQ(Mounted(), std::nullopt);
}

TEST_F(RealMountTest, MountsReadOnly) {
  ASSERT_EQ(host_->MountTmpfs(target_, {.source = "test", .access = MountAccess::kReadOnly}), Status());
  EXPECT_TRUE(Mounted()->is_read_only);
  EXPECT_NE(mkdir((target_ + "/x").c_str(), 0700), 0);
  EXPECT_EQ(errno, EROFS);
}

TEST_F(RealMountTest, BindsAndChangesAccess) {
  const std::string source = root_ + "/b/source";
  ASSERT_EQ(host_->MakeDirectory(source, 0777), Status());
  ASSERT_EQ(host_->BindMount(source, target_), Status());
  WriteTextFile(target_ + "/f", "seen on both sides");
  EXPECT_EQ(ReadTextFile(source + "/f"), "seen on both sides");
  ASSERT_EQ(host_->SetBindAccess(target_, MountAccess::kReadOnly), Status());
  EXPECT_TRUE(Mounted()->is_read_only);
  EXPECT_NE(mkdir((target_ + "/x").c_str(), 0700), 0);
  EXPECT_EQ(mkdir((source + "/x").c_str(), 0700), 0);
  ASSERT_EQ(host_->SetBindAccess(target_, MountAccess::kReadWrite), Status());
  EXPECT_FALSE(Mounted()->is_read_only);
  EXPECT_EQ(Mounted()->root.substr(Mounted()->root.size() - 9), "/b/source");
}

TEST_F(RealMountTest, UnmountsWhatIsBusyAndStacked) {
  ASSERT_EQ(host_->MountTmpfs(target_, {.source = "lower"}), Status());
  ASSERT_EQ(host_->MountTmpfs(target_, {.source = "upper"}), Status());
  EXPECT_EQ(Mounted()->source, "upper");
  const int held_open = open(target_.c_str(), O_RDONLY | O_DIRECTORY);
  EXPECT_EQ(host_->Unmount(target_), Status());
  EXPECT_EQ(Mounted(), std::nullopt);
  EXPECT_EQ(host_->RemoveDirectory(target_), Status());
  close(held_open);
}

TEST_F(RealMountTest, DoesNotEmptyWhatIsMountedInsideATree) {
  ASSERT_EQ(host_->MountTmpfs(target_, {.source = "test"}), Status());
  WriteTextFile(target_ + "/precious", "x");
  ASSERT_EQ(host_->MakeDirectory(root_ + "/a/tree", 0700), Status());
  ASSERT_EQ(host_->MakeDirectory(root_ + "/a/tree/inner", 0700), Status());
  ASSERT_EQ(host_->BindMount(target_, root_ + "/a/tree/inner"), Status());
  EXPECT_EQ(host_->RemoveTree(root_ + "/a/tree").code(), StatusCode::kAborted);
  EXPECT_EQ(ReadTextFile(target_ + "/precious"), "x");
}

}  // namespace
}  // namespace paceline::agent
