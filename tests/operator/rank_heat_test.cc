#include "operator/page/rank_heat.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paceline::operator_ {
namespace {

using std::chrono::seconds;

constexpr int64_t kHeatNow = 100'000;

// The last `length` seconds of a rank that works on its own for `own` of every 5 s; slow from `slow_from` on.
analysis::RankPace HeatRank(int32_t number, const std::string& node, int64_t length, int64_t slow_from = kHeatNow) {
  analysis::RankPace rank{number, node, {{7, true, false}}, {}};
  for (int64_t start = kHeatNow - length; start < kHeatNow; start += 5) {
    const seconds own(start >= slow_from ? 4 : 3);
    rank.windows.push_back({start, 50, own, seconds(5) - own, 0});
  }
  return rank;
}

Json Heat(const RunPaces& paces, seconds window = seconds(5), size_t max_ranks = kMaxHeatRanks) {
  analysis::SlowdownOptions options;
  options.window = window;
  options.windows = 4;
  return RankHeat(paces, WallTime(seconds(kHeatNow)), options, max_ranks);
}

TEST(RankHeat, ShowsWhichRankBecameSlowAndWhen) {
  RunPaces paces;
  for (int rank = 0; rank < 6; ++rank) {
    paces.ranks.push_back(HeatRank(rank, "n" + std::to_string(rank / 2), 200, rank == 3 ? kHeatNow - 60 : kHeatNow));
  }
  paces.expected_ranks = 6;
  const Json heat = Heat(paces);
  EXPECT_EQ(heat["traced"], true);
  EXPECT_EQ(heat["ranks"], Json({0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(heat["nodes"], Json({"n0", "n1", "n2"}));
  EXPECT_EQ(heat["nodeOf"], Json({0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(heat["windowSeconds"], 5);
  // Twenty windows that end ten seconds ago, of which the last ten are slow: four fifths of its own against three.
  ASSERT_EQ(heat["windows"].size(), static_cast<size_t>(kMaxHeatWindows));
  EXPECT_EQ(heat["windows"][19]["at"], FormatRfc3339(WallTime(seconds(kHeatNow - 15))));
  EXPECT_EQ(heat["windows"][9]["lost"], Json({0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(heat["windows"][10]["lost"], Json({0, 0, 0, 250, 0, 0}));
  EXPECT_EQ(heat["windows"][19]["lost"], Json({0, 0, 0, 250, 0, 0}));
  EXPECT_NEAR(heat["slowdown"].get<double>(), 1.25, 0.01);
  ASSERT_EQ(heat["slow"].size(), 1u);
  EXPECT_EQ(heat["slow"][0]["rank"], 3);
  EXPECT_EQ(heat["slow"][0]["node"], "n1");
  EXPECT_NEAR(heat["slow"][0]["lateSeconds"].get<double>(), 0.02, 1e-6);
}

TEST(RankHeat, WhatIsNotKnownIsNotZero) {
  EXPECT_EQ(Heat({}), Json({{"traced", false}}));
  RunPaces paces;
  for (int rank = 0; rank < 10; ++rank) paces.ranks.push_back(HeatRank(rank, "n", rank == 4 ? 40 : 60));
  paces.ranks[9].windows.resize(8);  // silent for the last 20 s
  paces.expected_ranks = 10;
  Json heat = Heat(paces);
  ASSERT_EQ(heat["windows"].size(), 10u) << "what was before the first is left out";
  EXPECT_EQ(heat["windows"][0]["lost"], Json({0, 0, 0, 0, nullptr, 0, 0, 0, 0, 0}));
  EXPECT_EQ(heat["windows"][9]["lost"], Json({0, 0, 0, 0, 0, 0, 0, 0, 0, nullptr}));
  paces.expected_ranks = 20;
  heat = Heat(paces);
  EXPECT_TRUE(heat["windows"].empty());
  EXPECT_FALSE(heat.contains("slowdown"));
  EXPECT_NE(heat["whyNot"].get<std::string>().find("of 20 ranks have no fresh data"), std::string::npos) << heat;
}

TEST(RankHeat, OfTooManyRanksShowsThoseThatCostMost) {
  RunPaces paces;
  for (int rank = 0; rank < 100; ++rank) paces.ranks.push_back(HeatRank(rank, "n", 200, rank == 77 ? 0 : kHeatNow));
  paces.expected_ranks = 100;
  const Json heat = Heat(paces, seconds(5), 3);
  EXPECT_EQ(heat["ranks"], Json({0, 1, 77}));
  EXPECT_EQ(heat["omitted"], 97);
  EXPECT_EQ(heat["windows"][19]["lost"], Json({0, 0, 250}));
}

TEST(RankHeat, LooksBackAsFarAsAgentsRemember) {
  RunPaces paces;
  for (int rank = 0; rank < 4; ++rank) paces.ranks.push_back(HeatRank(rank, "n", 1200));
  paces.expected_ranks = 4;
  EXPECT_EQ(Heat(paces, seconds(60))["windows"].size(), 15u);
  EXPECT_EQ(Heat(paces, seconds(600))["windows"].size(), 1u);
}

}  // namespace
}  // namespace paceline::operator_
