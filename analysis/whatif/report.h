// The what-if analysis as one HTML page for people: what is lost and why in words, heat map, bars, step series,
// timeline. The page needs nothing else: no network, no script, no font, no image; light or dark as the reader's
// system.
//
// Called by `pacectl whatif --html`. Pure.
#pragma once

#include <string>
#include <vector>

#include "analysis/whatif/analysis.h"
#include "analysis/whatif/hints.h"
#include "analysis/whatif/model.h"
#include "analysis/whatif/scenarios.h"
#include "analysis/whatif/trace.h"

namespace paceline::analysis {

// All must outlive the call; `model` and `result` are those of `trace`.
struct ReportInput {
  const StepTrace& trace;
  const WhatIfModel& model;
  const WhatIfResult& result;
  const std::vector<CauseHint>& hints;
  const std::vector<Scenario>& scenarios;
};

// A whole HTML document in UTF-8, of a few hundred kilobytes whatever the size of the job.
std::string RenderReport(const ReportInput& input);

}  // namespace paceline::analysis
