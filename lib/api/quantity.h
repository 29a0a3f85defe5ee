// Kubernetes quantities, "512Mi", "1.5", "2e3". Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace paceline::api {

// The value of `text` rounded up to a whole unit: bytes for memory. kInvalidArgument, with the accepted suffixes named,
// for anything else than <number><suffix> and for values beyond int64.
Result<int64_t> ParseQuantity(std::string_view text);

// As ParseQuantity, in thousandths rounded up: "100m" is 100, "2" is 2000.
Result<int64_t> ParseMilliQuantity(std::string_view text);

}  // namespace paceline::api
