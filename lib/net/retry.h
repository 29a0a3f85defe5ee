// Decides whether a request is sent again and when. Pure functions, so that the policy is tested as a table; the
// waiting is done by the HTTP client.
#pragma once

#include <optional>
#include <string_view>

#include "lib/net/http_client.h"

namespace paceline::net {

// Whether a failed request can have reached the server's application.
enum class Exposure { kNeverSent, kMayHaveBeenSeen };

struct AttemptOutcome {
  Status failure;  // ok when a response was read
  Exposure exposure = Exposure::kMayHaveBeenSeen;
  const HttpResponse* response = nullptr;  // null when failed
};

// Seconds or an HTTP date, as RFC 9110 10.2.3 says; nothing when the text is neither. Never negative.
std::optional<Duration> ParseRetryAfter(std::string_view text, WallTime now);

// How long to wait before attempt number `attempts_made` + 1, or nothing when the outcome stands. `random` in [0, 1) is
// the jitter; Retry-After is taken as it is.
std::optional<Duration> RetryDelay(const RetryPolicy& policy, std::string_view method, int attempts_made,
                                   const AttemptOutcome& outcome, double random, WallTime now);

}  // namespace paceline::net
