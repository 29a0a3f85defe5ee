// What a registry's HTTP answers mean to us: which ranges are believed, where a redirect leads and whether credentials
// may go along, what is tried again and when. Pure functions, so that each rule is tested as a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/net/http.h"
#include "lib/net/url.h"

namespace paceline::blocks {

struct ByteRange {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t end() const { return offset + length; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// "bytes=0-99"
std::string RangeHeader(ByteRange range);

// Whether `head` answers a request for `range` (not empty) of a blob: status 206 and a Content-Range of exactly these
// bytes. A 200 is never a range: kUnimplemented, since asking the same server again gives the same. Anything else that
// does not fit is kDataLoss.
Status CheckRangeAnswer(const net::HttpResponse& head, ByteRange range);

// An absolute address: where to connect, and what to ask for there.
struct Address {
  net::Url url;        // `path` empty
  std::string target;  // path and query

  bool IsSameOrigin(const net::Url& other) const {
    return url.is_https == other.is_https && url.host == other.host && url.port == other.port;
  }
};

// The Location of a redirect or an upload, which may be absolute or relative to `target` at `base`. kUnavailable,
// without quoting it (it may be a secret), when it cannot be read or leads from https to http.
Result<Address> ResolveLocation(const net::Url& base, std::string_view target, std::string_view location);

bool IsRedirect(int http_status);
// 408, 425, 429, 500, 502, 503, 504: the same request may work later or elsewhere.
bool IsRetryableStatus(int http_status);

struct RetryRules {
  int max_attempts = 6;  // rounds over all hosts
  Duration initial_backoff = std::chrono::milliseconds(200);
  Duration max_backoff = std::chrono::seconds(10);
  Duration max_retry_after = std::chrono::seconds(60);  // a server that asks for more gets this
};

// How long to wait before round `rounds_made` + 1; nothing when there shall be none. `retry_after`: what the last host
// asked for. `random` in [0, 1): full jitter, but never less than a server asked for.
std::optional<Duration> NextRound(const RetryRules& rules, int rounds_made, std::optional<Duration> retry_after,
                                  double random);

// The failure that `response` is, with the registry's own error code and message when it gives them, cut to a line.
Status RegistryFailure(const net::HttpResponse& response, std::string_view what);

// Neighbouring ranges, in any order, become one request when at most `max_gap` bytes lie between them and the result
// is not longer than `max_length`; a single longer range stays whole. Sorted.
std::vector<ByteRange> CoalesceRanges(std::vector<ByteRange> ranges, uint64_t max_gap, uint64_t max_length);

}  // namespace paceline::blocks
