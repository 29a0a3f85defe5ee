#include "analysis/slowdown.h"

#include <gtest/gtest.h>

#include "tests/analysis/paced_job.h"

namespace paceline::analysis {
namespace {

using namespace std::chrono_literals;

Duration Times(Duration base, double factor) {
  return Duration(static_cast<int64_t>(static_cast<double>(base.count()) * factor));
}

// 100 ms with a scatter of `sigma`, `factor` times as long on rank 3.
auto Work(double factor, double sigma) {
  return [=](int rank, int, std::mt19937& random) {
    std::normal_distribution<double> scatter(1, sigma);
    return Times(100ms, std::max(scatter(random), 0.2) * (rank == 3 ? factor : 1));
  };
}

Slowdown Measure(const PacedJob& job, const std::vector<RankPace>& paces, const SlowdownOptions& options = {}) {
  return SlowdownOf(paces, SharesOf(paces, static_cast<size_t>(job.ranks), job.End() + options.lag, {}, options),
                    options);
}

TEST(Slowdown, IsTheRatioOfStepTimesWithAndWithoutASlowRank) {
  for (const double factor : {1.0, 1.16, 1.4, 2.0, 5.0}) {
    PacedJob slow{.work = Work(factor, 0.01)}, healthy{.work = Work(1, 0.01)};
    Duration slow_step{}, healthy_step{};
    const std::vector<RankPace> paces = slow.Play(&slow_step);
    healthy.Play(&healthy_step);
    const double measured = ToSeconds(slow_step) / ToSeconds(healthy_step);
    const Slowdown told = Measure(slow, paces);
    ASSERT_TRUE(told.slowdown.has_value()) << told.why_not;
    EXPECT_NEAR(*told.slowdown, measured, 0.03 * measured) << factor;
    EXPECT_LE(*told.error, 0.05 * measured) << factor;
    ASSERT_EQ(told.workers.size(), 8u);
    if (factor == 1.0) continue;
    EXPECT_EQ(told.workers[0].world_rank, 3);
    EXPECT_EQ(told.workers[0].node, "n3");
    EXPECT_DOUBLE_EQ(told.workers[0].slowdown, *told.slowdown);
    EXPECT_NEAR(told.workers[0].late_seconds, 0.1 * (factor - 1), 0.01);
    EXPECT_NEAR(told.workers[1].slowdown, 1, 0.02);
  }
}

TEST(Slowdown, MovesOnlyTheRankThatIsSlow) {
  PacedJob job{.work = [](int rank, int, std::mt19937&) { return rank == 5 ? 150ms : rank == 2 ? 120ms : 100ms; }};
  const Slowdown told = Measure(job, job.Play());
  ASSERT_TRUE(told.slowdown.has_value());
  EXPECT_NEAR(*told.slowdown, 160.0 / 110, 1e-3);
  EXPECT_EQ(told.workers[0].world_rank, 5);
  EXPECT_EQ(told.workers[1].world_rank, 2);
  EXPECT_NEAR(told.workers[1].slowdown, 130.0 / 110, 1e-3);
  for (size_t i = 2; i < told.workers.size(); i++) EXPECT_NEAR(told.workers[i].slowdown, 1, 1e-6) << i;
}

TEST(Slowdown, LeavesCheckpointsOut) {
  // Every 300th step rank 0 saves for 6 s, and the others wait.
  PacedJob job{.work = [](int rank, int step, std::mt19937&) {
    return rank == 0 && step % 300 == 150 ? Duration(6s) : rank == 3 ? Duration(140ms) : Duration(100ms);
  }};
  const Slowdown told = Measure(job, job.Play());
  ASSERT_TRUE(told.slowdown.has_value()) << told.why_not;
  EXPECT_NEAR(*told.slowdown, 150.0 / 110, 0.01);
  EXPECT_EQ(told.workers[0].world_rank, 3);
}

TEST(Slowdown, DoesNotTakeScatterForASlowRank) {
  PacedJob job{.ranks = 64, .work = Work(1, 0.3)};
  const Slowdown told = Measure(job, job.Play());
  ASSERT_TRUE(told.slowdown.has_value());
  EXPECT_LE(*told.slowdown - *told.error, 1.005);
  EXPECT_LE(*told.slowdown, 1.08);
}

TEST(Slowdown, MissingDataIsUnknown) {
  PacedJob job{.work = Work(1.4, 0.01)};
  const std::vector<RankPace> all = job.Play();
  const SlowdownOptions options;
  const auto measure = [&](std::vector<RankPace> paces, WallTime now, WallTime since = {}) {
    return SlowdownOf(paces, SharesOf(paces, 8, now, since, options), options);
  };
  EXPECT_TRUE(measure(all, job.End() + options.lag).slowdown.has_value());
  std::vector<RankPace> half(all.begin(), all.begin() + 4);
  const Slowdown silent = measure(half, job.End() + options.lag);
  EXPECT_FALSE(silent.slowdown.has_value());
  EXPECT_FALSE(silent.error.has_value());
  EXPECT_NE(silent.why_not.find("4 of 8 ranks have no fresh data"), std::string::npos) << silent.why_not;
  EXPECT_FALSE(measure({}, job.End() + options.lag).slowdown.has_value());
  EXPECT_FALSE(measure(all, job.End() + 10min).slowdown.has_value()) << "old data says nothing of now";
  EXPECT_FALSE(measure(all, job.End() + options.lag, job.End() - 60s).slowdown.has_value());
  // One of eight is little enough.
  std::vector<RankPace> most(all.begin() + 1, all.end());
  EXPECT_TRUE(measure(most, job.End() + options.lag).slowdown.has_value());
  std::vector<RankPace> ahead = all;
  for (RankPace& rank : ahead) {
    for (PaceWindow& window : rank.windows) window.ahead = window.operations;
  }
  const Slowdown asynchronous = measure(ahead, job.End() + options.lag);
  EXPECT_FALSE(asynchronous.slowdown.has_value());
  EXPECT_NE(asynchronous.why_not.find("ahead"), std::string::npos) << asynchronous.why_not;
}

TEST(Slowdown, MediansOfFewValues) {
  EXPECT_EQ(LowerMedian({}), 0);
  EXPECT_EQ(LowerMedian({5}), 5);
  EXPECT_EQ(LowerMedian({9, 5}), 5);
  EXPECT_EQ(LowerMedian({9, 1, 5}), 5);
  EXPECT_EQ(RobustDeviation({}), 0);
  EXPECT_GT(RobustDeviation({1, 2}), 0);
}

}  // namespace
}  // namespace paceline::analysis
