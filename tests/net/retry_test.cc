#include "lib/net/retry.h"

#include <gtest/gtest.h>

namespace paceline::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const WallTime kNow = ParseRfc3339("2026-01-02T03:04:05Z").value();

TEST(ParseRetryAfter, ReadsSecondsAndDates) {
  struct Case {
    const char* text;
    std::optional<Duration> wait;
  };
  const Case cases[] = {
      {"0", seconds(0)},
      {"1", seconds(1)},
      {"120", seconds(120)},
      {"99999999999", seconds(24 * 3600)},
      {"Fri, 02 Jan 2026 03:04:15 GMT", seconds(10)},
      {"Fri, 02 Jan 2026 03:04:00 GMT", seconds(0)},
      {"", std::nullopt},
      {"-1", std::nullopt},
      {"1.5", std::nullopt},
      {"soon", std::nullopt},
      {"Fri, 02 Jan 2026 03:04:15 GMT+1", std::nullopt},
      {"99999999999999999999999", std::nullopt},
  };
  for (const Case& c : cases) EXPECT_EQ(ParseRetryAfter(c.text, kNow), c.wait) << c.text;
}

AttemptOutcome Failed(Exposure exposure, Status status = UnavailableError("reset")) {
  return {std::move(status), exposure, nullptr};
}

TEST(RetryDelay, RetriesWhatTheHeaderSays) {
  const auto response = [](int status, const char* retry_after) {
    HttpResponse r;
    r.status = status;
    if (retry_after != nullptr) r.headers["Retry-After"] = retry_after;
    return r;
  };
  const HttpResponse r200 = response(200, nullptr), r429 = response(429, nullptr), r429_2 = response(429, "2"),
                     r503 = response(503, nullptr), r503_3 = response(503, "3"), r502 = response(502, nullptr),
                     r504 = response(504, nullptr), r500 = response(500, nullptr), r404 = response(404, nullptr);
  const auto got = [](const HttpResponse& r) { return AttemptOutcome{Status(), Exposure::kMayHaveBeenSeen, &r}; };
  struct Case {
    const char* name;
    const char* method;
    AttemptOutcome outcome;
    std::optional<Duration> wait;
  };
  const Duration backoff = milliseconds(50);  // half of the first ceiling
  const Case cases[] = {
      {"success", "GET", got(r200), std::nullopt},
      {"not found", "GET", got(r404), std::nullopt},
      {"429 without a time", "GET", got(r429), std::nullopt},
      {"429 with a time", "GET", got(r429_2), seconds(2)},
      {"429 POST", "POST", got(r429_2), std::nullopt},
      {"503", "PUT", got(r503), backoff},
      {"503 with a time", "DELETE", got(r503_3), seconds(3)},
      {"503 PATCH", "PATCH", got(r503), std::nullopt},
      {"502", "HEAD", got(r502), backoff},
      {"504", "GET", got(r504), backoff},
      {"500", "GET", got(r500), std::nullopt},
      {"refused GET", "GET", Failed(Exposure::kNeverSent), backoff},
      {"refused POST", "POST", Failed(Exposure::kNeverSent), backoff},
      {"cut GET", "GET", Failed(Exposure::kMayHaveBeenSeen), backoff},
      {"cut PUT", "PUT", Failed(Exposure::kMayHaveBeenSeen), backoff},
      {"cut DELETE", "DELETE", Failed(Exposure::kMayHaveBeenSeen), backoff},
      {"cut POST", "POST", Failed(Exposure::kMayHaveBeenSeen), std::nullopt},
      {"cut PATCH", "PATCH", Failed(Exposure::kMayHaveBeenSeen), std::nullopt},
      {"stopped", "GET", Failed(Exposure::kNeverSent, CancelledError("")), std::nullopt},
      {"late", "GET", Failed(Exposure::kNeverSent, DeadlineExceededError("")), std::nullopt},
      {"bad header", "GET", Failed(Exposure::kNeverSent, InvalidArgumentError("")), std::nullopt},
      {"too big", "GET", Failed(Exposure::kMayHaveBeenSeen, ResourceExhaustedError("")), std::nullopt},
  };
  for (const Case& c : cases) EXPECT_EQ(RetryDelay({}, c.method, 1, c.outcome, 0.5, kNow), c.wait) << c.name;
}

TEST(RetryDelay, DoublesUpToTheCeilingWithFullJitterAndEnds) {
  const RetryPolicy policy = {.max_attempts = 10, .initial_backoff = milliseconds(100), .max_backoff = seconds(1)};
  const AttemptOutcome refused = Failed(Exposure::kNeverSent);
  const Duration ceilings[] = {milliseconds(100), milliseconds(200), milliseconds(400),
                               milliseconds(800), seconds(1),        seconds(1)};
  for (int made = 1; made <= 6; ++made) {
    EXPECT_EQ(*RetryDelay(policy, "GET", made, refused, 0, kNow), Duration::zero());
    const Duration almost = *RetryDelay(policy, "GET", made, refused, 0.999999, kNow);
    EXPECT_LT(almost, ceilings[made - 1]) << made;
    EXPECT_GT(almost, ceilings[made - 1] * 99 / 100) << made;
  }
  EXPECT_TRUE(RetryDelay(policy, "GET", 9, refused, 0.5, kNow).has_value());
  EXPECT_FALSE(RetryDelay(policy, "GET", 10, refused, 0.5, kNow).has_value());
}

}  // namespace
}  // namespace paceline::net
