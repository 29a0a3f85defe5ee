#include "fuse-hdfs/written_file.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "lib/hdfs/local_file_system.h"
#include "lib/hdfs/posix_error.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/fuse_hdfs/text_bytes.h"

namespace paceline::fuse_hdfs {
namespace {

constexpr WriteRules kRules{.holdback_bytes = 4, .window_bytes = 1 << 20};

class WrittenFileTest : public testing::Test {
 protected:
  std::unique_ptr<WrittenFile> New() {
    auto file = std::make_unique<WrittenFile>(*fs_, clock_, kRules, budget_, path_, 0);
    EXPECT_TRUE(file->Begin(hdfs::CreateMode::kOverwrite, 0640, false, Soon()).ok());
    return file;
  }
  std::unique_ptr<WrittenFile> Existing(const std::string& content) {
    std::ofstream(path_) << content;
    return std::make_unique<WrittenFile>(*fs_, clock_, kRules, budget_, path_, content.size());
  }
  std::optional<std::string> OnServer() const {
    std::ifstream file(path_);
    if (!file) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  size_t EntriesInFolder() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_.path()), {}));
  }
  Deadline Soon() const { return Deadline::After(clock_, std::chrono::seconds(10)); }

  RealClock clock_;
  std::unique_ptr<hdfs::FileSystem> fs_ = hdfs::MakeLocalFileSystem(clock_);
  WriteBudget budget_;
  fakes::TemporaryFolder folder_;
  const std::string path_ = folder_ / "f";
};

TEST_F(WrittenFileTest, AppearsWholeAtCommit) {
  auto file = New();
  ASSERT_TRUE(file->Write(0, Bytes("hello"), Soon()).ok());
  EXPECT_TRUE(file->view().is_open);
  EXPECT_FALSE(file->view().is_on_server);
  EXPECT_EQ(file->view().size_bytes, 5u);
  EXPECT_EQ(OnServer(), std::nullopt);
  ASSERT_TRUE(file->Commit(Durability::kVisible, Soon()).ok());
  EXPECT_FALSE(file->view().is_open);
  EXPECT_EQ(OnServer(), "hello");
  EXPECT_EQ(budget_.held_bytes, 0u);
}

TEST_F(WrittenFileTest, GoesOnAfterCommit) {
  auto file = New();
  ASSERT_TRUE(file->Write(0, Bytes("hello"), Soon()).ok());
  ASSERT_TRUE(file->Commit(Durability::kOnDisk, Soon()).ok());
  ASSERT_TRUE(file->Write(5, Bytes(" world"), Soon()).ok());
  ASSERT_TRUE(file->Commit(Durability::kVisible, Soon()).ok());
  EXPECT_EQ(OnServer(), "hello world");
}

TEST_F(WrittenFileTest, AnyOrderWithHolesAsZeros) {
  auto file = New();
  ASSERT_TRUE(file->Write(6, Bytes("six"), Soon()).ok());
  ASSERT_TRUE(file->Write(0, Bytes("zero"), Soon()).ok());
  ASSERT_TRUE(file->Truncate(12, Soon()).ok());
  ASSERT_TRUE(file->Commit(Durability::kVisible, Soon()).ok());
  EXPECT_EQ(OnServer(), std::string("zero\0\0six\0\0\0", 12));
}

TEST_F(WrittenFileTest, FarWriteTurnsTheHoleIntoZeros) {
  auto file = New();
  const uint64_t far = 5 << 20;
  ASSERT_TRUE(file->Write(0, Bytes("start"), Soon()).ok());
  ASSERT_TRUE(file->Write(far, Bytes("end"), Soon()).ok());
  EXPECT_LE(budget_.held_bytes, kRules.window_bytes);
  EXPECT_EQ(hdfs::ErrnoOf(file->Write(100, Bytes("x"), Soon())), EOPNOTSUPP);
  ASSERT_TRUE(file->Commit(Durability::kVisible, Soon()).ok());
  EXPECT_EQ(OnServer(), "start" + std::string(far - 5, '\0') + "end");
}

TEST_F(WrittenFileTest, TheEndStaysChangeable) {
  auto file = New();
  ASSERT_TRUE(file->Write(0, Bytes(std::string(3 << 20, 'a')), Soon()).ok());
  EXPECT_TRUE(file->Write((3 << 20) - 2, Bytes("zz"), Soon()).ok());
  EXPECT_EQ(hdfs::ErrnoOf(file->Write(0, Bytes("header"), Soon())), EOPNOTSUPP);
  ASSERT_TRUE(file->Commit(Durability::kVisible, Soon()).ok());
  EXPECT_EQ(OnServer()->substr((3 << 20) - 3), "azz");
}

TEST_F(WrittenFileTest, ReadsWhatItHolds) {
  auto file = New();
  ASSERT_TRUE(file->Write(0, Bytes("hello"), Soon()).ok());
  ASSERT_TRUE(file->Truncate(8, Soon()).ok());
  std::string out(20, '.');
  EXPECT_EQ(file->Read(1, std::as_writable_bytes(std::span(out)), Soon()), 7u);
  EXPECT_EQ(out.substr(0, 7), std::string("ello\0\0\0", 7));
  EXPECT_EQ(file->Read(100, std::as_writable_bytes(std::span(out)), Soon()), 0u);
  ASSERT_TRUE(file->Commit(Durability::kVisible, Soon()).ok());
  EXPECT_EQ(file->Read(0, std::as_writable_bytes(std::span(out)), Soon()), std::nullopt);
}

TEST_F(WrittenFileTest, AppendsToAnExistingFileOnlyAtItsEnd) {
  auto file = Existing("old");
  EXPECT_EQ(hdfs::ErrnoOf(file->Write(1, Bytes("x"), Soon())), EOPNOTSUPP);
  EXPECT_FALSE(file->view().is_open) << "nothing was asked of the server";
  ASSERT_TRUE(file->Write(3, Bytes(" and new"), Soon()).ok());
  ASSERT_TRUE(file->Commit(Durability::kVisible, Soon()).ok());
  EXPECT_EQ(OnServer(), "old and new");
}

TEST_F(WrittenFileTest, AppendFindsThatSomebodyElseWrote) {
  auto file = Existing("old");
  std::ofstream(path_, std::ios::app) << "er";
  EXPECT_EQ(hdfs::ErrnoOf(file->Write(3, Bytes("x"), Soon())), ESTALE);
  EXPECT_EQ(OnServer(), "older");
}

TEST_F(WrittenFileTest, TruncatesClosedAndSentBytes) {
  auto file = Existing("0123456789");
  ASSERT_TRUE(file->Truncate(4, Soon()).ok());
  EXPECT_EQ(OnServer(), "0123");
  ASSERT_TRUE(file->Truncate(6, Soon()).ok());
  ASSERT_TRUE(file->Commit(Durability::kVisible, Soon()).ok());
  EXPECT_EQ(OnServer(), std::string("0123\0\0", 6));
  ASSERT_TRUE(file->Write(6, Bytes(std::string(2 << 20, 'b')), Soon()).ok());
  ASSERT_TRUE(file->Truncate(2, Soon()).ok());
  ASSERT_TRUE(file->Write(2, Bytes("!"), Soon()).ok());
  ASSERT_TRUE(file->Commit(Durability::kVisible, Soon()).ok());
  EXPECT_EQ(OnServer(), "01!");
}

TEST_F(WrittenFileTest, BeginsAnewWithoutTouchingTheOldUntilCommit) {
  auto file = Existing("old");
  ASSERT_TRUE(file->Begin(hdfs::CreateMode::kOverwrite, 0600, true, Soon()).ok());
  ASSERT_TRUE(file->Write(0, Bytes("new"), Soon()).ok());
  EXPECT_EQ(OnServer(), "old");
  ASSERT_TRUE(file->Commit(Durability::kVisible, Soon()).ok());
  EXPECT_EQ(OnServer(), "new");
}

TEST_F(WrittenFileTest, AnOrphanLeavesNothing) {
  auto file = New();
  ASSERT_TRUE(file->Write(0, Bytes("hello"), Soon()).ok());
  file->Orphan();
  EXPECT_TRUE(file->Write(5, Bytes("more"), Soon()).ok());
  EXPECT_EQ(file->view().size_bytes, 9u);
  EXPECT_TRUE(file->Commit(Durability::kVisible, Soon()).ok());
  file.reset();
  EXPECT_EQ(EntriesInFolder(), 0u);
}

TEST_F(WrittenFileTest, GoneWithoutCommitLeavesNothing) {
  auto file = New();
  ASSERT_TRUE(file->Write(0, Bytes("hello"), Soon()).ok());
  file.reset();
  EXPECT_EQ(EntriesInFolder(), 0u);
  EXPECT_EQ(budget_.held_bytes, 0u);
}

TEST_F(WrittenFileTest, AFailureStaysUntilTheFileIsBegunAnew) {
  auto file = New();
  ASSERT_TRUE(file->Write(0, Bytes("hello"), Soon()).ok());
  std::filesystem::remove_all(folder_.path());  // so that the final rename has no place to go to
  EXPECT_FALSE(file->Commit(Durability::kVisible, Soon()).ok());
  EXPECT_FALSE(file->Commit(Durability::kVisible, Soon()).ok());
  EXPECT_FALSE(file->Write(5, Bytes("x"), Soon()).ok());
  std::filesystem::create_directory(folder_.path());
  ASSERT_TRUE(file->Begin(hdfs::CreateMode::kOverwrite, 0600, false, Soon()).ok());
  ASSERT_TRUE(file->Write(0, Bytes("again"), Soon()).ok());
  ASSERT_TRUE(file->Commit(Durability::kVisible, Soon()).ok());
  EXPECT_EQ(OnServer(), "again");
}

}  // namespace
}  // namespace paceline::fuse_hdfs
