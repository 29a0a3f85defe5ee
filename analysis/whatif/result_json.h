// The result of a what-if analysis as JSON: at its top the fields of the study's published result files under their
// names, its ms and mw objects below "ms" and "mw", ours below "paceline" (docs/formats/whatif-result.md). Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "analysis/whatif/analysis.h"
#include "analysis/whatif/hints.h"
#include "analysis/whatif/scenarios.h"

namespace paceline::analysis {

// Keeps the order of the published files: steps ascending, ratios descending.
nlohmann::ordered_json WhatIfJson(const WhatIfResult& result, const std::vector<CauseHint>& hints,
                                  const std::vector<Scenario>& scenarios);

}  // namespace paceline::analysis
