#include "fuse-hdfs/prefetcher.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "lib/hdfs/local_file_system.h"
#include "tests/fakes/simulated_clock.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::fuse_hdfs {
namespace {

constexpr Duration kHold = std::chrono::minutes(10);

class PrefetcherTest : public testing::Test {
 protected:
  PrefetcherTest() {
    std::filesystem::create_directory(folder_ / "step_7");
    std::ofstream(folder_ / "step_7/a") << std::string(100, 'a');
    std::ofstream(folder_ / "step_7/b") << std::string(100, 'b');
    std::ofstream(folder_ / "step_7/empty");
  }

  Result<Prefetcher::Plan> Add(const std::string& name) {
    return prefetcher_.Add(folder_ / name, Deadline::Infinite());
  }
  std::unique_ptr<hdfs::Reader> Claim(const std::string& name) {
    const Result<hdfs::FileStatus> status = fs_->Stat(folder_ / name, Deadline::Infinite());
    return prefetcher_.Claim(folder_ / name, status.value());
  }
  // The prefetcher's thread takes its time; no clock tells when it is done.
  bool Comes(const std::function<bool(const Prefetcher::Stats&)>& condition) const {
    const RealClock real;
    const Deadline limit = Deadline::After(real, std::chrono::seconds(30));
    while (!condition(prefetcher_.stats())) {
      if (limit.Expired(real)) return false;
      std::this_thread::yield();
    }
    return true;
  }

  fakes::TemporaryFolder folder_;
  fakes::SimulatedClock clock_;
  std::unique_ptr<hdfs::FileSystem> fs_ = hdfs::MakeLocalFileSystem(clock_);
  Prefetcher prefetcher_{*fs_, clock_, {.budget_bytes = 96, .step_bytes = 32, .hold = kHold, .max_files = 4}};
};

TEST_F(PrefetcherTest, LoadsTheStartsOfAllFilesWithinItsBudget) {
  const Result<Prefetcher::Plan> plan = Add("step_7");
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->files, 3u);
  EXPECT_EQ(plan->bytes, 200u);
  clock_.AwaitTimers(1);  // it waits for files to expire, so there is nothing else to do
  const Prefetcher::Stats stats = prefetcher_.stats();
  EXPECT_EQ(stats.files, 2u) << "of an empty file nothing can be loaded";
  EXPECT_EQ(stats.asked_bytes, 96u);
}

TEST_F(PrefetcherTest, WhoOpensAFileGetsItsReaderAndMakesRoom) {
  ASSERT_TRUE(Add("step_7").ok());
  clock_.AwaitTimers(1);
  const std::unique_ptr<hdfs::Reader> reader = Claim("step_7/a");
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->length_bytes(), 100u);
  EXPECT_EQ(Claim("step_7/a"), nullptr) << "another one has a reader of its own";
  EXPECT_TRUE(Comes([](const auto& stats) { return stats.files == 1 && stats.asked_bytes == 96; }));
  EXPECT_EQ(prefetcher_.stats().claimed_files, 1u);
}

TEST_F(PrefetcherTest, AFileThatHasChangedIsOpenedAnew) {
  ASSERT_TRUE(Add("step_7/a").ok());
  clock_.AwaitTimers(1);
  std::ofstream(folder_ / "step_7/a") << std::string(100, 'c') << "longer";
  EXPECT_EQ(Claim("step_7/a"), nullptr);
  EXPECT_EQ(prefetcher_.stats().files, 0u);
  EXPECT_EQ(prefetcher_.stats().asked_bytes, 0u);
}

TEST_F(PrefetcherTest, WhatNobodyOpensGoesAfterAWhile) {
  ASSERT_TRUE(Add("step_7/a").ok());
  clock_.AwaitTimers(1);
  clock_.Advance(kHold / 2);
  ASSERT_TRUE(Add("step_7/a").ok()) << "its time starts anew";
  clock_.Advance(kHold / 2);
  EXPECT_EQ(prefetcher_.stats().files, 1u);
  clock_.Advance(kHold / 2);
  EXPECT_TRUE(Comes([](const auto& stats) { return stats.files == 0 && stats.expired_files == 1; }));
  EXPECT_EQ(prefetcher_.stats().asked_bytes, 0u);
}

TEST_F(PrefetcherTest, SaysWhatIsMissingOrTooMuch) {
  EXPECT_EQ(Add("none").status().code(), StatusCode::kNotFound);
  for (const char* name : {"c", "d", "e"}) std::ofstream(folder_ / ("step_7/" + std::string(name))) << name;
  EXPECT_EQ(Add("step_7").status().code(), StatusCode::kResourceExhausted);
  EXPECT_LE(prefetcher_.stats().files, 4u);
  prefetcher_.Clear();
  EXPECT_EQ(prefetcher_.stats().asked_bytes, 0u);
}

}  // namespace
}  // namespace paceline::fuse_hdfs
