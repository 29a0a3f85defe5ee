// The timeline of the what-if report: what some workers did in one step, as measured, above what their stage would have
// done without stragglers, on one axis.
//
// Of a large job it takes a few ranks and stages and says which are left out, so that the page stays small. Called by
// report.cc. Pure.
#pragma once

#include <string>

#include "analysis/whatif/analysis.h"
#include "analysis/whatif/model.h"
#include "analysis/whatif/trace.h"

namespace paceline::analysis {

// The workers that are drawn, ascending: of the ranks the slowest, the fastest and those between, of the stages also
// the first and the last; 32 workers at most.
struct TimelineChoice {
  std::vector<int> dp_ranks;
  std::vector<int> stages;
};
TimelineChoice ChooseWorkers(const WhatIfResult& result);

// The position in result.steps of the step that took longest.
size_t SlowestStep(const WhatIfResult& result);

// `step` is a position in result.steps.
std::string Timeline(const StepTrace& trace, const WhatIfModel& model, const WhatIfResult& result, size_t step);

}  // namespace paceline::analysis
