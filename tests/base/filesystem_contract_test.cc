// What every FileSystem must do, run on the real one in a temporary folder and on the one in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "lib/base/filesystem.h"
#include "tests/fakes/memory_filesystem.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kLimit = 1 << 20;

class RealInTemporaryFolder {
 public:
  RealInTemporaryFolder() : root_(MakeRoot()), files_(root_) {}
  ~RealInTemporaryFolder() { std::filesystem::remove_all(root_); }

  FileSystem& files() { return files_; }
  void AddSymlink(const std::string& path, const std::string& target) {
    // The root is a prefix and no jail: an absolute target is put below it here, as a chroot would.
    const std::string full = target.rfind('/', 0) == 0 ? root_ + target : target;
    ASSERT_EQ(::symlink(full.c_str(), (root_ + path).c_str()), 0);
  }

 private:
  static std::string MakeRoot() {
    std::string name = testing::TempDir() + "paceline-files-XXXXXX";
    return ::mkdtemp(name.data());
  }

  std::string root_;
  RealFileSystem files_;
};

class InMemory {
 public:
  FileSystem& files() { return files_; }
  void AddSymlink(const std::string& path, const std::string& target) { files_.AddSymlink(path, target); }

 private:
  RealClock clock_;
  fakes::MemoryFileSystem files_{clock_};
};

template <typename Bed>
class FileSystemContract : public testing::Test {
 protected:
  FileSystem& files() { return bed_.files(); }
  Bed bed_;
};

using Beds = testing::Types<RealInTemporaryFolder, InMemory>;
class BedNames {
 public:
  template <typename T>
  static std::string GetName(int) {
    return std::is_same_v<T, InMemory> ? "Memory" : "Real";
  }
};
TYPED_TEST_SUITE(FileSystemContract, Beds, BedNames);

TYPED_TEST(FileSystemContract, WritesAndReadsWholeFiles) {
  FileSystem& files = this->files();
  const std::string bytes("a\0b\xff\n", 5);
  ASSERT_TRUE(files.WriteFileAtomically("/f", bytes).ok());
  EXPECT_EQ(*files.ReadFile("/f", kLimit), bytes);
  ASSERT_TRUE(files.WriteFileAtomically("/f", "").ok());
  EXPECT_EQ(*files.ReadFile("/f", kLimit), "");
  const std::string large(300'000, 'x');
  ASSERT_TRUE(files.WriteFileAtomically("/f", large).ok());
  EXPECT_EQ(*files.ReadFile("/f", kLimit), large);
  EXPECT_THAT(*files.List("/"), ElementsAre("f"));  // no temporary file is left
}

TYPED_TEST(FileSystemContract, AReadHasALimit) {
  FileSystem& files = this->files();
  ASSERT_TRUE(files.WriteFileAtomically("/f", "12345").ok());
  EXPECT_EQ(*files.ReadFile("/f", 5), "12345");
  EXPECT_EQ(files.ReadFile("/f", 4).status().code(), StatusCode::kResourceExhausted);
}

TYPED_TEST(FileSystemContract, SaysWhatIsThere) {
  FileSystem& files = this->files();
  ASSERT_TRUE(files.WriteFileAtomically("/f", "123", 0640).ok());
  ASSERT_TRUE(files.MakeDirectories("/d", 0750).ok());
  const Result<FileInfo> file = files.Stat("/f");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->type, FileInfo::Type::kFile);
  EXPECT_EQ(file->size_bytes, 3u);
  EXPECT_EQ(file->mode, 0640u);
  EXPECT_LT(RealClock().WallNow() - file->modified, std::chrono::minutes(5));
  EXPECT_EQ(files.Stat("/d")->type, FileInfo::Type::kDirectory);
  EXPECT_EQ(files.Stat("/d")->mode, 0750u);
  EXPECT_TRUE(*files.Exists("/d"));
  EXPECT_FALSE(*files.Exists("/gone"));
  EXPECT_EQ(files.Exists("/f/below").status().code(), StatusCode::kInvalidArgument);
}

TYPED_TEST(FileSystemContract, ErrorsSayWhy) {
  FileSystem& files = this->files();
  ASSERT_TRUE(files.WriteFileAtomically("/f", "").ok());
  ASSERT_TRUE(files.MakeDirectories("/d/e", 0755).ok());
  EXPECT_EQ(files.ReadFile("/gone", kLimit).status().code(), StatusCode::kNotFound);
  EXPECT_NE(files.ReadFile("/gone", kLimit).status().message().find("/gone"), std::string::npos);
  EXPECT_EQ(files.ReadFile("/d", kLimit).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(files.ReadFile("/f/x", kLimit).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(files.WriteFileAtomically("/gone/f", "").code(), StatusCode::kNotFound);
  EXPECT_EQ(files.WriteFileAtomically("/d", "").code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(*files.List("/"), ElementsAre("d", "f"));
  EXPECT_EQ(files.List("/gone").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(files.List("/f").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(files.MakeDirectories("/f/d", 0755).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(files.MakeDirectories("/f", 0755).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(files.Remove("/gone").code(), StatusCode::kNotFound);
  EXPECT_EQ(files.Remove("/d").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(files.Rename("/gone", "/x").code(), StatusCode::kNotFound);
  EXPECT_EQ(files.Rename("/f", "/d").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(files.Rename("/d", "/d/e/x").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(files.ReadSymlink("/f").status().code(), StatusCode::kInvalidArgument);
}

TYPED_TEST(FileSystemContract, MakesAndRemovesDirectories) {
  FileSystem& files = this->files();
  ASSERT_TRUE(files.MakeDirectories("/a/b/c", 0755).ok());
  ASSERT_TRUE(files.MakeDirectories("/a/b/c", 0755).ok());
  ASSERT_TRUE(files.WriteFileAtomically("/a/b/z", "").ok());
  ASSERT_TRUE(files.WriteFileAtomically("/a/b/A", "").ok());
  EXPECT_THAT(*files.List("/a/b"), ElementsAre("A", "c", "z"));
  ASSERT_TRUE(files.Remove("/a/b/c").ok());
  ASSERT_TRUE(files.Remove("/a/b/A").ok());
  EXPECT_THAT(*files.List("/a/b/"), ElementsAre("z"));
  EXPECT_THAT(*files.List("/a"), ElementsAre("b"));
}

TYPED_TEST(FileSystemContract, RenameReplaces) {
  FileSystem& files = this->files();
  ASSERT_TRUE(files.WriteFileAtomically("/a", "1").ok());
  ASSERT_TRUE(files.WriteFileAtomically("/b", "2").ok());
  ASSERT_TRUE(files.Rename("/a", "/b").ok());
  EXPECT_EQ(*files.ReadFile("/b", kLimit), "1");
  EXPECT_FALSE(*files.Exists("/a"));
  ASSERT_TRUE(files.MakeDirectories("/d", 0755).ok());
  ASSERT_TRUE(files.WriteFileAtomically("/d/x", "3").ok());
  ASSERT_TRUE(files.Rename("/d", "/e").ok());
  EXPECT_EQ(*files.ReadFile("/e/x", kLimit), "3");
  EXPECT_THAT(*files.List("/"), ElementsAre("b", "e"));
}

TYPED_TEST(FileSystemContract, FollowsLinksAsKubernetesVolumesUseThem) {
  FileSystem& files = this->files();
  ASSERT_TRUE(files.MakeDirectories("/v/..2026_01", 0755).ok());
  ASSERT_TRUE(files.WriteFileAtomically("/v/..2026_01/tls.crt", "cert").ok());
  this->bed_.AddSymlink("/v/..data", "..2026_01");
  this->bed_.AddSymlink("/v/tls.crt", "..data/tls.crt");
  this->bed_.AddSymlink("/v/absolute", "/v/..2026_01/tls.crt");
  EXPECT_EQ(*files.ReadFile("/v/tls.crt", kLimit), "cert");
  EXPECT_EQ(*files.ReadFile("/v/absolute", kLimit), "cert");
  EXPECT_EQ(*files.ReadSymlink("/v/tls.crt"), "..data/tls.crt");
  EXPECT_EQ(files.Stat("/v/tls.crt")->type, FileInfo::Type::kFile);
  EXPECT_EQ(files.StatLink("/v/tls.crt")->type, FileInfo::Type::kSymlink);
  EXPECT_EQ(*files.ReadFile("/v/..data/../..data/./tls.crt", kLimit), "cert");
  EXPECT_THAT(*files.List("/v/..data"), ElementsAre("tls.crt"));
}

TYPED_TEST(FileSystemContract, LinksThatLeadNowhere) {
  FileSystem& files = this->files();
  this->bed_.AddSymlink("/dangling", "gone");
  this->bed_.AddSymlink("/a", "b");
  this->bed_.AddSymlink("/b", "a");
  EXPECT_FALSE(*files.Exists("/dangling"));
  EXPECT_EQ(files.ReadFile("/a", kLimit).status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(files.WriteFileAtomically("/dangling", "x").ok());  // replaced, not followed
  EXPECT_EQ(files.StatLink("/dangling")->type, FileInfo::Type::kFile);
  EXPECT_FALSE(*files.Exists("/gone"));
  ASSERT_TRUE(files.Remove("/a").ok());
  EXPECT_THAT(*files.List("/"), ElementsAre("b", "dangling"));
}

TYPED_TEST(FileSystemContract, ReadersSeeOldOrNewAndNothingBetween) {
  FileSystem& files = this->files();
  const std::string old_contents(50'000, 'o'), new_contents(70'000, 'n');
  ASSERT_TRUE(files.WriteFileAtomically("/f", old_contents).ok());
  std::atomic<bool> is_done = false;
  std::jthread writer([&] {
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(files.WriteFileAtomically("/f", i % 2 ? old_contents : new_contents).ok());
    is_done = true;
  });
  while (!is_done) {
    const Result<std::string> seen = files.ReadFile("/f", kLimit);
    ASSERT_TRUE(seen.ok());
    ASSERT_TRUE(*seen == old_contents || *seen == new_contents) << seen->size();
  }
}

}  // namespace
}  // namespace paceline
