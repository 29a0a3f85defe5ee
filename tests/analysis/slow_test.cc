#include <gtest/gtest.h>

#include <random>

#include "analysis/lateness.h"
#include "analysis/usual_duration.h"

namespace paceline::analysis {
namespace {

using namespace std::chrono_literals;

TEST(UsualDuration, ClassesSizesByPowersOfTwo) {
  const std::pair<uint64_t, int> cases[] = {{0, 0}, {1, 0}, {2, 1}, {3, 1}, {4, 2}, {1 << 20, 20}, {(2 << 20) - 1, 20}};
  for (const auto& [bytes, size_class] : cases) EXPECT_EQ(SizeClass(bytes), size_class) << bytes;
  const std::pair<const char*, uint64_t> types[] = {{"ncclInt8", 1},   {"ncclBfloat16", 2},   {"ncclFloat32", 4},
                                                    {"ncclUint64", 8}, {"ncclFloat8e4m3", 1}, {"", 1}};
  for (const auto& [name, bytes] : types) EXPECT_EQ(DatatypeBytes(name), bytes) << name;
}

TEST(UsualDuration, GivesPercentilesWithinItsBuckets) {
  for (const Duration duration : {Duration(5us), Duration(3ms), Duration(2s), Duration(10min)}) {
    DurationCounts counts;
    EXPECT_FALSE(counts.Percentile(0.5).has_value());
    for (int i = 1; i <= 1000; i++) counts.Add(duration * i / 1000);
    EXPECT_NEAR(ToSeconds(*counts.Percentile(0.5)), ToSeconds(duration) / 2, ToSeconds(duration) / 2 * 0.19);
    EXPECT_NEAR(ToSeconds(*counts.Percentile(0.99)), ToSeconds(duration), ToSeconds(duration) * 0.19);
    counts.Age();
    EXPECT_LE(counts.count(), 500u);
  }
}

TEST(UsualDuration, KeepsABoundedNumberOfKeys) {
  UsualDurations usual(10);
  for (uint64_t comm = 0; comm < 1000; comm++) usual.Add({comm, "AllReduce", 20}, 1ms);
  EXPECT_EQ(usual.size(), 10u);
  EXPECT_FALSE(usual.Median({0, "AllReduce", 20}).has_value());  // one is not usual
  for (int i = 0; i < 5; i++) usual.Add({0, "AllReduce", 20}, 1ms);
  EXPECT_TRUE(usual.Median({0, "AllReduce", 20}).has_value());
  EXPECT_FALSE(usual.Median({0, "AllReduce", 21}).has_value());
}

TEST(Trigger, TellsAStallFromWhatIsUsual) {
  const struct {
    Duration still;
    std::optional<Duration> usual;
    bool is_stall;
  } cases[] = {{2s, 1ms, false},         {4s, 1ms, true},  {4s, 2s, false}, {7s, std::nullopt, false},
               {9s, std::nullopt, true}, {9s, 100s, true}, {0s, 0s, false}};
  for (const auto& c : cases) EXPECT_EQ(HasStalled(c.still, c.usual, {}), c.is_stall) << ToSeconds(c.still);
}

TEST(Trigger, TellsAWindowThatTakesTwiceAsLong) {
  DurationCounts window;
  for (int i = 0; i < 4; i++) window.Add(30ms);
  EXPECT_FALSE(IsSlow(window, 10ms));  // too few
  window.Add(30ms);
  EXPECT_TRUE(IsSlow(window, 10ms));
  EXPECT_FALSE(IsSlow(window, 25ms));
  EXPECT_FALSE(IsSlow(window, std::nullopt));
}

std::vector<Arrival> Arrivals(int operations, int late_rank, Duration late, Duration noise) {
  std::mt19937 random(5);
  std::vector<Arrival> arrivals;
  for (int i = 0; i < operations; i++) {
    for (int32_t rank = 0; rank < 4; rank++) {
      const Duration jitter = noise.count() == 0 ? 0ns : Duration(random() % static_cast<uint64_t>(noise.count()));
      const WallTime at = WallTime(std::chrono::seconds(i)) + jitter + (rank == late_rank ? late : 0ns);
      arrivals.push_back({7, static_cast<uint64_t>(i), rank, at});
    }
  }
  return arrivals;
}

TEST(Lateness, FindsTheRankThatOthersWaitFor) {
  const auto ranks = LatenessOf(7, Arrivals(50, 2, 40ms, 5ms));
  ASSERT_EQ(ranks.size(), 4u);
  EXPECT_EQ(ranks[2].times_last, 50u);
  EXPECT_NEAR(ToSeconds(ranks[2].median), 0.04, 0.005);
  const auto late = FindLateRank(ranks);
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->rank, 2);
}

TEST(Lateness, IsSilentWithoutAnOutlierOrWithFewOperations) {
  EXPECT_FALSE(FindLateRank(LatenessOf(7, Arrivals(50, -1, 0ms, 20ms))).has_value());
  EXPECT_FALSE(FindLateRank(LatenessOf(7, Arrivals(10, 2, 40ms, 5ms))).has_value());
  EXPECT_FALSE(FindLateRank(LatenessOf(7, Arrivals(50, 2, 2ms, 1ms))).has_value());
  EXPECT_FALSE(FindLateRank(LatenessOf(8, Arrivals(50, 2, 40ms, 5ms))).has_value());
  // One rank alone is neither late nor early.
  std::vector<Arrival> alone = {{7, 0, 1, WallTime(1s)}, {7, 1, 1, WallTime(2s)}};
  EXPECT_TRUE(LatenessOf(7, alone).empty());
}

TEST(LinkRates, FindTheSlowLink) {
  std::vector<LinkUse> uses;
  for (int32_t from = 0; from < 4; from++) {
    for (int i = 0; i < 5; i++) uses.push_back({7, from, (from + 1) % 4, 1'000'000, from == 1 ? 50ms : 10ms});
  }
  uses.push_back({7, 0, 1, 0, 5s});   // no bytes say nothing of a rate
  uses.push_back({8, 0, 1, 10, 5s});  // another communicator
  const auto rates = RatesOf(7, uses);
  ASSERT_EQ(rates.size(), 4u);
  EXPECT_NEAR(rates[0].bytes_per_second, 1e8, 1e5);
  const auto slow = FindSlowLink(rates);
  ASSERT_TRUE(slow.has_value());
  EXPECT_EQ(slow->from, 1);
  EXPECT_EQ(slow->to, 2);
  EXPECT_FALSE(FindSlowLink(std::vector<LinkRate>(rates.begin(), rates.begin() + 2)).has_value());
  EXPECT_FALSE(FindSlowLink(rates, 0.1).has_value());
}

}  // namespace
}  // namespace paceline::analysis
