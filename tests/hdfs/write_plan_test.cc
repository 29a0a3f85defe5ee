#include "lib/hdfs/write_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::hdfs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kMiB = 1 << 20;

TEST(SegmentBytes, GrowsToTheLimit) {
  EXPECT_EQ(SegmentBytes(0, 32 * kMiB, 128 * kMiB), 4 * kMiB);
  EXPECT_EQ(SegmentBytes(1, 32 * kMiB, 128 * kMiB), 16 * kMiB);
  EXPECT_EQ(SegmentBytes(2, 32 * kMiB, 128 * kMiB), 32 * kMiB);
  EXPECT_EQ(SegmentBytes(9, 256 * kMiB, 128 * kMiB), 128 * kMiB);
  EXPECT_EQ(SegmentBytes(0, 32 * kMiB, kMiB), kMiB);
  EXPECT_EQ(SegmentBytes(5, 2 * kMiB, 128 * kMiB), 2 * kMiB);
}

TEST(ConcatBatches, KeepTheOrder) {
  using Batch = std::pair<size_t, size_t>;
  EXPECT_THAT(ConcatBatches(0), IsEmpty());
  EXPECT_THAT(ConcatBatches(1), ElementsAre(Batch{0, 1}));
  EXPECT_THAT(ConcatBatches(256), ElementsAre(Batch{0, 256}));
  EXPECT_THAT(ConcatBatches(600), ElementsAre(Batch{0, 256}, Batch{256, 512}, Batch{512, 600}));
}

TEST(JudgeFailure, FollowsItsTable) {
  EXPECT_THAT(JudgeFailure({AbortedError("x"), {1}}, 3).drop, ElementsAre(1));
  EXPECT_THAT(JudgeFailure({AbortedError("x"), {7}}, 3).drop, IsEmpty());
  EXPECT_THAT(JudgeFailure({UnavailableError("reset"), {}}, 3).drop, ElementsAre(0));
  EXPECT_TRUE(JudgeFailure({DeadlineExceededError("silent"), {}}, 3).needs_probe);
  EXPECT_FALSE(JudgeFailure({PermissionDeniedError("token"), {}}, 3).needs_probe);
  EXPECT_THAT(JudgeFailure({PermissionDeniedError("token"), {}}, 3).drop, IsEmpty());
}

TEST(MayRecover, EndsAfterFiveTriesWithoutProgress) {
  EXPECT_TRUE(MayRecover(0));
  EXPECT_TRUE(MayRecover(4));
  EXPECT_FALSE(MayRecover(5));
}

TEST(AppendsInNewBlock, KnowsJoinedFiles) {
  const auto blocks = [](const std::vector<uint64_t>& lengths) {
    std::vector<LocatedBlock> made(lengths.size());
    for (size_t i = 0; i < lengths.size(); ++i) made[i].block.length_bytes = lengths[i];
    return made;
  };
  EXPECT_FALSE(AppendsInNewBlock(blocks({}), 100));
  EXPECT_FALSE(AppendsInNewBlock(blocks({7}), 100));
  EXPECT_FALSE(AppendsInNewBlock(blocks({100, 100, 7}), 100));
  EXPECT_TRUE(AppendsInNewBlock(blocks({100, 50, 100}), 100));
  EXPECT_TRUE(AppendsInNewBlock(blocks({4, 16, 32}), 100));
}

}  // namespace
}  // namespace paceline::hdfs
