#include "lib/net/retry.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <string>

namespace paceline::net {
namespace {

// A second try of these leaves the server in the same state as the first one alone.
bool IsIdempotent(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "PUT" || method == "DELETE";
}

Duration Backoff(const RetryPolicy& policy, int attempts_made, double random) {
  const double doubled = ToSeconds(policy.initial_backoff) * std::pow(2.0, attempts_made - 1);
  const double ceiling = std::min(doubled, ToSeconds(policy.max_backoff));
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(ceiling * random));
}

}  // namespace

std::optional<Duration> ParseRetryAfter(std::string_view text, WallTime now) {
  constexpr int64_t kLongestSeconds = 24 * 3600;  // more is a mistake, and must not overflow
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc() && end == text.data() + text.size() && seconds >= 0) {
    return std::chrono::seconds(std::min(seconds, kLongestSeconds));
  }
  std::tm parts = {};
  const std::string date(text);
  const char* rest = strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (rest == nullptr || *rest != '\0') return std::nullopt;
  const Duration wait = WallTime(std::chrono::seconds(timegm(&parts))) - now;
  return std::clamp<Duration>(wait, Duration::zero(), std::chrono::seconds(kLongestSeconds));
}

std::optional<Duration> RetryDelay(const RetryPolicy& policy, std::string_view method, int attempts_made,
                                   const AttemptOutcome& outcome, double random, WallTime now) {
  if (attempts_made >= policy.max_attempts) return std::nullopt;
  if (outcome.response == nullptr) {
    if (outcome.failure.code() != StatusCode::kUnavailable) return std::nullopt;
    if (outcome.exposure != Exposure::kNeverSent && !IsIdempotent(method)) return std::nullopt;
    return Backoff(policy, attempts_made, random);
  }
  if (!IsIdempotent(method)) return std::nullopt;
  const int status = outcome.response->status;
  if (status == 429 || status == 503) {
    if (const auto wait = ParseRetryAfter(outcome.response->Header("Retry-After"), now)) return wait;
  }
  if (status == 502 || status == 503 || status == 504) return Backoff(policy, attempts_made, random);
  return std::nullopt;
}

}  // namespace paceline::net
