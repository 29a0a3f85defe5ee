#include "cli/fs_bench.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lib/hdfs/local_file_system.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::cli {
namespace {

class FsBenchTest : public testing::Test {
 protected:
  size_t FilesLeft() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_.path()), {}));
  }

  fakes::TemporaryFolder folder_;
  RealClock clock_;
  std::unique_ptr<hdfs::FileSystem> fs_ = hdfs::MakeLocalFileSystem(clock_);
};

TEST_F(FsBenchTest, MeasuresADirectoryAndLeavesNothing) {
  uint64_t last = 0;
  const BenchOptions options{.file_bytes = (5 << 20) + 3, .files = 2};
  const Result<std::vector<BenchResult>> results =
      BenchDirectory(*fs_, folder_.path(), options, clock_, [&](uint64_t done, uint64_t total) {
        last = done;
        EXPECT_EQ(total, 2u * ((5 << 20) + 3));
      });
  ASSERT_TRUE(results.ok()) << results.status().ToString();
  ASSERT_EQ(results->size(), 2u);
  for (const BenchResult& result : *results) {
    EXPECT_EQ(result.bytes, 2u * ((5 << 20) + 3)) << result.operation;
    EXPECT_GT(result.took, Duration::zero());
    EXPECT_LE(result.longest_call, result.took);
  }
  EXPECT_EQ(last, 2u * ((5 << 20) + 3));
  EXPECT_EQ(FilesLeft(), 0u);
  EXPECT_EQ(BenchTable(*results).rows.size(), 2u);
  const nlohmann::json value = BenchValue(results->front());
  EXPECT_EQ(value["operation"], "write");
  EXPECT_EQ(value["files"], 2);
  EXPECT_GT(value["bytesPerSecond"].get<double>(), 0);
}

TEST_F(FsBenchTest, KeepsItsFilesWhenAskedTo) {
  const BenchOptions options{.file_bytes = 1 << 20, .files = 3, .keeps_files = true};
  ASSERT_TRUE(BenchDirectory(*fs_, folder_.path(), options, clock_, nullptr).ok());
  EXPECT_EQ(FilesLeft(), 3u);
}

TEST_F(FsBenchTest, ReadsAFileThatIsThere) {
  std::ofstream(folder_ / "f") << std::string(1000, 'x');
  const Result<BenchResult> read = BenchFile(*fs_, folder_ / "f", {}, clock_, nullptr);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->operation, "read");
  EXPECT_EQ(read->bytes, 1000u);
}

TEST_F(FsBenchTest, SaysWhatIsMissing) {
  EXPECT_EQ(BenchFile(*fs_, folder_ / "none", {}, clock_, nullptr).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(BenchDirectory(*fs_, folder_ / "none", {.file_bytes = 10}, clock_, nullptr).ok());
}

}  // namespace
}  // namespace paceline::cli
