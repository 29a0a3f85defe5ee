// StripeWriter over files of this machine: what it holds in memory.
#include "lib/hdfs/stripe_writer.h"

#include <gtest/gtest.h>

#include "lib/hdfs/local_file_system.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kStripeUnit = 64 << 10;
constexpr uint64_t kBudget = 6 * kStripeUnit;

class StripeWriting : public testing::Test {
 protected:
  std::unique_ptr<StripeWriter> Open() {
    StripeWriter::Place place{
        .fs = *fs_, .budget = budget_, .clock = clock_, .folder = folder_ / "stripes", .folder_mode = 0755};
    Result<std::unique_ptr<StripeWriter>> writer =
        StripeWriter::Open(std::move(place), {.files = 3, .unit_bytes = kStripeUnit}, {}, Soon());
    EXPECT_TRUE(writer.ok()) << writer.status().ToString();
    return writer.ok() ? *std::move(writer) : nullptr;
  }
  Deadline Soon() const { return Deadline::After(clock_, 20s); }

  fakes::TemporaryFolder folder_;
  RealClock clock_;
  std::unique_ptr<FileSystem> fs_ = MakeLocalFileSystem(clock_);
  ByteBudget budget_{kBudget, clock_};
};

TEST_F(StripeWriting, QueuesCountInTheBudget) {
  const std::string bytes(100 * kStripeUnit + 5, 'x');
  auto writer = Open();
  ASSERT_NE(writer, nullptr);
  for (size_t at = 0; at < bytes.size(); at += 10'007) {
    ASSERT_TRUE(writer->Write(std::string_view(bytes).substr(at, 10'007), Soon()).ok());
  }
  EXPECT_GE(budget_.peak_bytes(), kStripeUnit);
  // One unit for each lane may go beyond it, when others hold everything.
  EXPECT_LE(budget_.peak_bytes(), kBudget + 3 * kStripeUnit);
  ASSERT_TRUE(writer->All(StripeLane::Order::kClose, Soon()).ok());
  EXPECT_EQ(writer->set().length_bytes, bytes.size());
  EXPECT_TRUE(budget_.Take(kBudget, clock_.Now())) << "all memory is given back";
}

TEST_F(StripeWriting, GoesOnBesideWritersThatHoldAllMemory) {
  ASSERT_TRUE(budget_.Take(kBudget, clock_.Now()));
  auto writer = Open();
  ASSERT_NE(writer, nullptr);
  ASSERT_TRUE(writer->Write(std::string(9 * kStripeUnit, 'x'), Soon()).ok());
  ASSERT_TRUE(writer->All(StripeLane::Order::kClose, Soon()).ok());
  budget_.Give(kBudget);
  EXPECT_TRUE(budget_.Take(kBudget, clock_.Now()));
}

TEST_F(StripeWriting, GivesTheMemoryOfWhatIsNotFinishedBack) {
  auto writer = Open();
  ASSERT_NE(writer, nullptr);
  ASSERT_TRUE(writer->Write(std::string(2 * kStripeUnit + 100, 'x'), Soon()).ok());
  writer.reset();
  EXPECT_TRUE(budget_.Take(kBudget, clock_.Now()));
  EXPECT_FALSE(fs_->Stat(folder_ / "stripes", Soon()).ok());
}

}  // namespace
}  // namespace paceline::hdfs
