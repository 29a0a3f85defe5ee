#include "fuse-hdfs/parts_janitor.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lib/hdfs/local_file_system.h"
#include "tests/fakes/simulated_clock.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::fuse_hdfs {
namespace {

constexpr JanitorRules kJanitorRules{.max_directories = 2};

class PartsJanitorTest : public testing::Test {
 protected:
  void LeaveParts() { std::ofstream(dead_) << "left behind"; }
  // Moves time to the janitor's next look and waits until it is over.
  void Pass(Duration time) {
    clock_.AwaitTimers(1);
    clock_.Advance(time);
  }
  size_t Looks() {
    MutexLock lock(mutex_);
    return looks_;
  }
  void AwaitLook(size_t count) {
    MutexLock lock(mutex_);
    while (looks_ < count) looked_.Wait(lock);
  }

  fakes::TemporaryFolder folder_;
  const std::string dead_ = folder_ / ".m.0000000112345678abcdef00.pl-p000001";
  fakes::SimulatedClock clock_;
  std::unique_ptr<hdfs::FileSystem> fs_ = hdfs::MakeLocalFileSystem(clock_);
  Mutex mutex_;
  CondVar looked_;
  size_t looks_ GUARDED_BY(mutex_) = 0;
  PartsJanitor janitor_{*fs_, clock_, kJanitorRules, [this](const std::string&, const Result<size_t>&) {
                          MutexLock lock(mutex_);
                          ++looks_;
                          looked_.NotifyAll();
                        }};
};

TEST_F(PartsJanitorTest, LooksAWhileAfterTheFirstFileAndThenRarely) {
  LeaveParts();
  janitor_.Note(folder_.path());
  janitor_.Note(folder_.path());
  Pass(kJanitorRules.delay / 2);
  EXPECT_TRUE(std::filesystem::exists(dead_)) << "the lease of its writer may not have run out";
  Pass(kJanitorRules.delay / 2);
  AwaitLook(1);
  EXPECT_FALSE(std::filesystem::exists(dead_));
  LeaveParts();
  janitor_.Note(folder_.path());
  Pass(kJanitorRules.pause / 2);
  EXPECT_EQ(Looks(), 1u);
  Pass(kJanitorRules.pause / 2);
  AwaitLook(2);
  EXPECT_FALSE(std::filesystem::exists(dead_));
}

TEST_F(PartsJanitorTest, LeavesWhatIsBeingWritten) {
  Result<std::unique_ptr<hdfs::Writer>> writer = fs_->Create(folder_ / "f", {}, Deadline::Infinite());
  ASSERT_TRUE(writer.ok());
  janitor_.Note(folder_.path());
  Pass(kJanitorRules.delay);
  AwaitLook(1);
  EXPECT_TRUE((*writer)->Close(Deadline::Infinite()).ok());
  EXPECT_TRUE(std::filesystem::exists(folder_ / "f"));
}

TEST_F(PartsJanitorTest, RemembersSoManyDirectories) {
  for (const char* name : {"/a", "/b", "/c"}) janitor_.Note(folder_.path() + name);
  Pass(kJanitorRules.delay);
  AwaitLook(2);
  clock_.AwaitBlocked(1);
  EXPECT_EQ(Looks(), 2u) << "and a directory that is gone harms nobody";
}

}  // namespace
}  // namespace paceline::fuse_hdfs
