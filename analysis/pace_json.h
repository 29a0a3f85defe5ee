// The JSON of paces, docs/formats/trace-tables.md, "Pace". Written by agents, read by the operator: documents come from
// other machines and are not trusted. Pure functions, any thread.
#pragma once

#include <string_view>
#include <vector>

#include "analysis/pace.h"
#include "lib/base/json.h"

namespace paceline::analysis {

Json WritePaces(const std::vector<RankPace>& ranks);

// kInvalidArgument for what is no such document, kUnimplemented for another version or another length of windows. A
// window with anything but numbers in their ranges is left out: it is not known. Ranks have no node. Memory is bounded
// by the limits of the format.
Result<std::vector<RankPace>> ParsePaces(std::string_view text);

}  // namespace paceline::analysis
