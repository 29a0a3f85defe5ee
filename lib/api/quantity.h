// Kubernetes quantities ("512Mi", "1.5", "2e3") and Go durations ("1h30m"), the two notations that users write in our
// fields. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::api {

// The value of `text` rounded up to a whole unit: bytes for memory. kInvalidArgument, with the accepted suffixes named,
// for anything else than <number><suffix> and for values beyond int64.
Result<int64_t> ParseQuantity(std::string_view text);

// As ParseQuantity, in thousandths rounded up: "100m" is 100, "2" is 2000.
Result<int64_t> ParseMilliQuantity(std::string_view text);

// A sequence of number and unit, "1h30m", "90s", "250ms"; no sign. kInvalidArgument otherwise.
Result<Duration> ParseDurationText(std::string_view text);

// The shortest form that reads back the same: "1h30m", "90s" becomes "1m30s", zero is "0s".
std::string FormatDurationText(Duration duration);

}  // namespace paceline::api
