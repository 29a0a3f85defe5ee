#include "fuse-hdfs/status_cache.h"

#include <gtest/gtest.h>

#include "tests/fakes/simulated_clock.h"

namespace paceline::fuse_hdfs {
namespace {

using std::chrono::seconds;

StatusCache::Answer FileOf(uint64_t length) {
  StatusCache::Answer answer{.exists = true};
  answer.status.length_bytes = length;
  return answer;
}

TEST(StatusCache, BelievesForItsLifetime) {
  fakes::SimulatedClock clock;
  StatusCache cache(clock, seconds(2), 10);
  cache.Remember("/a", FileOf(7), cache.generation());
  cache.Remember("/none", {}, cache.generation());
  clock.Advance(seconds(1));
  ASSERT_TRUE(cache.Find("/a").has_value());
  EXPECT_EQ(cache.Find("/a")->status.length_bytes, 7u);
  ASSERT_TRUE(cache.Find("/none").has_value());
  EXPECT_FALSE(cache.Find("/none")->exists);
  clock.Advance(seconds(1));
  EXPECT_FALSE(cache.Find("/a").has_value());
  EXPECT_EQ(cache.size(), 1u) << "an old entry goes when it is met";
}

TEST(StatusCache, TheLongestUnusedGoesFirst) {
  fakes::SimulatedClock clock;
  StatusCache cache(clock, seconds(100), 2);
  cache.Remember("/a", FileOf(1), cache.generation());
  cache.Remember("/b", FileOf(2), cache.generation());
  EXPECT_TRUE(cache.Find("/a").has_value());
  cache.Remember("/c", FileOf(3), cache.generation());
  EXPECT_TRUE(cache.Find("/a").has_value());
  EXPECT_FALSE(cache.Find("/b").has_value());
  EXPECT_EQ(cache.size(), 2u);
}

TEST(StatusCache, AnAnswerFromBeforeAChangeIsNotRemembered) {
  fakes::SimulatedClock clock;
  StatusCache cache(clock, seconds(100), 10);
  const uint64_t asked = cache.generation();
  cache.Forget("/a");
  cache.Remember("/a", FileOf(1), asked);
  EXPECT_FALSE(cache.Find("/a").has_value());
}

TEST(StatusCache, ForgetsATreeButNotItsNeighbour) {
  fakes::SimulatedClock clock;
  StatusCache cache(clock, seconds(100), 10);
  for (const char* path : {"/a", "/a/b", "/a/b/c", "/ab"}) cache.Remember(path, FileOf(1), cache.generation());
  cache.ForgetTree("/a");
  EXPECT_FALSE(cache.Find("/a").has_value());
  EXPECT_FALSE(cache.Find("/a/b/c").has_value());
  EXPECT_TRUE(cache.Find("/ab").has_value());
  cache.ForgetTree("/");
  EXPECT_EQ(cache.size(), 0u);
}

TEST(StatusCache, WithoutALifetimeRemembersNothing) {
  fakes::SimulatedClock clock;
  StatusCache cache(clock, seconds(0), 10);
  cache.Remember("/a", FileOf(1), cache.generation());
  EXPECT_EQ(cache.size(), 0u);
}

}  // namespace
}  // namespace paceline::fuse_hdfs
