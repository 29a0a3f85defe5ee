// Reads the part of TOML 1.0 that configuration of registries uses: tables, dotted and quoted keys, strings of one
// line, booleans, numbers, arrays and inline tables. Not read, and an error that says so: arrays of tables, strings
// over several lines, dates. Written here because the packaged library ends the process on some damaged texts. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "lib/base/result.h"

namespace paceline::blocks {

// An object whose keys are in the order of the text. kInvalidArgument names the line.
Result<nlohmann::ordered_json> ParseToml(std::string_view text);

}  // namespace paceline::blocks
