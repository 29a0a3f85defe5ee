// A plan file's text as JSON. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "lib/base/result.h"

namespace paceline::agent {

// YAML, of which JSON is a part. kInvalidArgument with the line for text that is neither, for more than one document,
// and for one that is nested too deep or grows too large by its aliases.
Result<nlohmann::json> ParsePlanText(std::string_view text);

}  // namespace paceline::agent
