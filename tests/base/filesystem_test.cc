#include "lib/base/filesystem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/fakes/memory_filesystem.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline {
namespace {

using fakes::MemoryFileSystem;
using testing::ElementsAre;
using testing::IsEmpty;
using Operation = MemoryFileSystem::Operation;

constexpr size_t kMaxBytes = 1 << 20;

class MemoryFiles : public testing::Test {
 protected:
  fakes::SimulatedClock clock_;
  MemoryFileSystem files_{clock_};
};

TEST_F(MemoryFiles, FailsOnDemandAndThenWorksAgain) {
  files_.AddFile("/etc/app/config", "x");
  files_.FailNext(Operation::kRead, "/etc", EIO, 2);
  EXPECT_EQ(files_.ReadFile("/etc/app/config", kMaxBytes).status().code(), StatusCode::kInternal);
  EXPECT_TRUE(files_.Stat("/etc/app/config").ok());
  EXPECT_FALSE(files_.ReadFile("/etc/app/config", kMaxBytes).ok());
  EXPECT_EQ(*files_.ReadFile("/etc/app/config", kMaxBytes), "x");
}

TEST_F(MemoryFiles, AFullDiskKeepsTheOldContents) {
  ASSERT_TRUE(files_.WriteFileAtomically("/state", "0123456789").ok());
  files_.SetCapacity(19);
  EXPECT_EQ(files_.WriteFileAtomically("/state", "abcdefghij").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(*files_.ReadFile("/state", kMaxBytes), "0123456789");
  EXPECT_TRUE(files_.WriteFileAtomically("/state", "short").ok());
}

TEST_F(MemoryFiles, AFailedSyncKeepsTheOldContents) {
  files_.AddFile("/state", "old");
  files_.FailNext(Operation::kSync, "/state", EIO);
  EXPECT_FALSE(files_.WriteFileAtomically("/state", "new").ok());
  EXPECT_EQ(*files_.ReadFile("/state", kMaxBytes), "old");
}

TEST_F(MemoryFiles, APowerCutUndoesWhatWasNotSynced) {
  files_.AddFile("/d/kept", "1");
  files_.AddFile("/d/removed", "2");
  files_.AddFile("/d/renamed", "3");
  ASSERT_TRUE(files_.MakeDirectories("/d/new").ok());
  ASSERT_TRUE(files_.WriteFileAtomically("/d/kept", "changed").ok());
  ASSERT_TRUE(files_.Remove("/d/removed").ok());
  ASSERT_TRUE(files_.Rename("/d/renamed", "/d/other").ok());
  files_.LosePower();
  EXPECT_THAT(*files_.List("/d"), ElementsAre("kept", "new", "removed", "renamed"));
  EXPECT_EQ(*files_.ReadFile("/d/kept", kMaxBytes), "changed");

  ASSERT_TRUE(files_.Remove("/d/removed").ok());
  ASSERT_TRUE(files_.Rename("/d/renamed", "/d/other").ok());
  ASSERT_TRUE(files_.WriteFileAtomically("/d/kept", "again").ok());  // syncs the directory, and with it the rest
  files_.LosePower();
  EXPECT_THAT(*files_.List("/d"), ElementsAre("kept", "new", "other"));
  EXPECT_EQ(*files_.ReadFile("/d/other", kMaxBytes), "3");
}

TEST_F(MemoryFiles, TimesAreThoseOfTheClock) {
  ASSERT_TRUE(files_.WriteFileAtomically("/f", "").ok());
  EXPECT_EQ(files_.Stat("/f")->modified, clock_.WallNow());
}

TEST(RealFileSystem, ReadsFilesThatSayTheyAreEmpty) {
  const RealFileSystem files;
  const Result<std::string> status = files.ReadFile("/proc/self/status", kMaxBytes);
  ASSERT_TRUE(status.ok());
  EXPECT_NE(status->find("Name:"), std::string::npos);
  EXPECT_EQ(files.Stat("/proc/self/status")->size_bytes, 0u);
}

TEST(RealFileSystem, PutsTheRootInFront) {
  const RealFileSystem proc("/proc");
  EXPECT_TRUE(*proc.Exists("/self/status"));
  EXPECT_TRUE(*proc.Exists("self/status"));
  EXPECT_FALSE(*proc.Exists("/proc"));
}

}  // namespace
}  // namespace paceline
