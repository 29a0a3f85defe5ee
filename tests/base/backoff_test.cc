#include "lib/base/backoff.h"

#include <gtest/gtest.h>

#include <set>

namespace paceline {
namespace {

using namespace std::chrono_literals;

TEST(Backoff, BoundsGrowToTheMaximumAndStartAnewAfterReset) {
  Backoff backoff({.initial = 100ms, .max = 1s, .factor = 2}, [] { return 1.0; });
  for (const Duration bound : {100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms}) EXPECT_EQ(backoff.Next(), bound);
  EXPECT_EQ(backoff.failures(), 6);
  backoff.Reset();
  EXPECT_EQ(backoff.failures(), 0);
  EXPECT_EQ(backoff.Next(), 100ms);
}

TEST(Backoff, JitterFillsTheWholeRangeDownToTheFloor) {
  double random = 0;
  Backoff full({.initial = 1s, .max = 1s}, [&random] { return random; });
  EXPECT_EQ(full.Next(), 0s);
  random = 0.25;
  EXPECT_EQ(full.Next(), 250ms);
  Backoff half({.initial = 1s, .max = 1s, .floor = 0.5}, [&random] { return random; });
  EXPECT_EQ(half.Next(), 625ms);
  random = 0;
  EXPECT_EQ(half.Next(), 500ms);
}

TEST(Backoff, NeverOverflows) {
  Backoff backoff({.initial = 1ns, .max = Duration::max(), .factor = 1e9}, [] { return 0.999; });
  for (int i = 0; i < 100; ++i) EXPECT_GE(backoff.Next(), 0ns);
}

TEST(RandomSource, GivesNumbersBelowOneThatDiffer) {
  const RandomSource random = MakeRandomSource();
  std::set<double> seen;
  for (int i = 0; i < 1000; ++i) {
    const double number = random();
    EXPECT_GE(number, 0.0);
    EXPECT_LT(number, 1.0);
    seen.insert(number);
  }
  EXPECT_GT(seen.size(), 990u);
  EXPECT_NE(MakeRandomSource()(), MakeRandomSource()());
}

}  // namespace
}  // namespace paceline
