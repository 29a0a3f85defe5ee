#include "lib/base/clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace paceline {
namespace {

using namespace std::chrono_literals;

TEST(Rfc3339, WritesWhatKubernetesWrites) {
  const WallTime time = WallTime(1767323045s + 1234567ns);
  EXPECT_EQ(FormatRfc3339(time), "2026-01-02T03:04:05Z");
  EXPECT_EQ(FormatRfc3339Micro(time), "2026-01-02T03:04:05.001234Z");
  EXPECT_EQ(FormatRfc3339Micro(WallTime(-1ns)), "1969-12-31T23:59:59.999999Z");
}

TEST(Rfc3339, ReadsDecimalsAndOffsets) {
  EXPECT_EQ(*ParseRfc3339("2026-01-02T03:04:05Z"), WallTime(1767323045s));
  EXPECT_EQ(*ParseRfc3339("2026-01-02T03:04:05.5Z"), WallTime(1767323045s + 500ms));
  EXPECT_EQ(*ParseRfc3339("2026-01-02T03:04:05.1234567891Z"), WallTime(1767323045s + 123456789ns));
  EXPECT_EQ(*ParseRfc3339("2026-01-02T05:34:05+02:30"), WallTime(1767323045s));
  EXPECT_EQ(*ParseRfc3339("2026-01-01T22:04:05-05:00"), WallTime(1767323045s));
}

TEST(Rfc3339, RefusesWhatIsNotATime) {
  for (const char* text :
       {"", "2026", "2026-13-02T03:04:05Z", "2026-02-30T03:04:05Z", "2026-01-02T03:04:05", "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05Zx", "0001-01-01T00:00:00Z", "2026-01-02T3:04:05Z"}) {
    EXPECT_EQ(ParseRfc3339(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(RealClock, SleepEndsAtOnceWhenAStopIsRequested) {
  const RealClock clock;
  std::stop_source source;
  std::jthread stopper([&] { source.request_stop(); });
  EXPECT_FALSE(clock.SleepUntil(clock.Now() + 1h, source.get_token()));
}

TEST(Deadline, TheEarlierOneWins) {
  const RealClock clock;
  const Deadline soon = Deadline::After(clock, 1s);
  EXPECT_EQ(Deadline::Infinite().Min(soon).when(), soon.when());
  EXPECT_EQ(Deadline::Infinite().Remaining(clock), Duration::max());
  EXPECT_EQ(Deadline::At(clock.Now() - 1s).Remaining(clock), Duration::zero());
  EXPECT_TRUE(Deadline::At(clock.Now() - 1s).Expired(clock));
}

}  // namespace
}  // namespace paceline
