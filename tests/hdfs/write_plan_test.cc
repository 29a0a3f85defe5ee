#include "lib/hdfs/write_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/hdfs/pipeline_repair.h"

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

TEST(WantsReplacement, FollowsHadoopsPolicies) {
  using Policy = ReplacementRules::Policy;
  const struct {
    Policy policy;
    uint32_t replication;
    size_t left;
    bool is_flushed, wants;
  } cases[] = {
      {Policy::kDefault, 3, 3, true, false}, {Policy::kDefault, 3, 2, false, false},
      {Policy::kDefault, 3, 2, true, true},  {Policy::kDefault, 3, 1, false, true},
      {Policy::kDefault, 3, 0, true, false}, {Policy::kDefault, 2, 1, true, false},
      {Policy::kDefault, 4, 2, false, true}, {Policy::kDefault, 5, 3, false, false},
      {Policy::kNever, 3, 1, true, false},   {Policy::kAlways, 2, 1, false, true},
      {Policy::kAlways, 1, 1, true, false},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(WantsReplacement({.policy = c.policy}, c.replication, c.left, c.is_flushed), c.wants)
        << c.replication << " replicas, " << c.left << " left" << (c.is_flushed ? ", flushed" : "");
  }
}

TEST(ReadReplacementRules, ReadsHadoopsKeys) {
  const std::string prefix = "dfs.client.block.write.replace-datanode-on-failure.";
  HadoopConfig config;
  Result<ReplacementRules> rules = ReadReplacementRules(config);
  ASSERT_TRUE(rules.ok());
  EXPECT_EQ(rules->policy, ReplacementRules::Policy::kDefault);
  EXPECT_TRUE(rules->is_best_effort);
  config.Set(prefix + "policy", "ALWAYS");
  config.Set(prefix + "best-effort", "false");
  rules = ReadReplacementRules(config);
  ASSERT_TRUE(rules.ok());
  EXPECT_EQ(rules->policy, ReplacementRules::Policy::kAlways);
  EXPECT_FALSE(rules->is_best_effort);
  config.Set(prefix + "enable", "false");
  EXPECT_EQ(ReadReplacementRules(config)->policy, ReplacementRules::Policy::kNever);
  config.Set(prefix + "enable", "true");
  config.Set(prefix + "policy", "SOMETIMES");
  EXPECT_EQ(ReadReplacementRules(config).status().code(), StatusCode::kInvalidArgument);
}

TEST(MayRecover, EndsAfterFiveTriesWithoutProgress) {
  EXPECT_TRUE(MayRecover(0));
  EXPECT_TRUE(MayRecover(4));
  EXPECT_FALSE(MayRecover(5));
}

}  // namespace
}  // namespace paceline::hdfs
