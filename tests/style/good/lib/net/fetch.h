// Fetches a page with a limit on time. Called by nobody; an example of what the checker accepts. Thread-safe.
#pragma once

#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::net {

struct FetchOptions {
  Duration timeout = std::chrono::seconds(5);
  int max_attempts = 3;
};

// kDeadlineExceeded after `options.timeout`. Blocks.
Result<std::string> Fetch(const std::string& url, const FetchOptions& options, const Clock& clock);

}  // namespace paceline::net
