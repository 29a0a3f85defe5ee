// The charts of the what-if report as inline SVG and tables: slowdown per worker, per part, per step.
//
// Each chart has a text form beside it, so that nothing is said by colour alone. Called by report.cc. Pure.
#pragma once

#include <string>

#include "analysis/whatif/analysis.h"

namespace paceline::analysis {

// Data-parallel ranks by stages, coloured by the worker's slowdown (S_w). More than 256 ranks or 64 stages share cells,
// each with the largest value in it, which the text says. Empty without the decompositions.
std::string HeatMap(const WhatIfResult& result);

// Ratios as bars in a table, the largest first, at most `max_rows`; bars are drawn against `largest`.
std::string PartBars(const std::string& caption, const Decomposition& parts, double largest, size_t max_rows);

// Measured, simulated and ideal seconds of each step, with the values in a table.
std::string StepSeries(const WhatIfResult& result);

}  // namespace paceline::analysis
