// Likely causes of a slowdown, by the signs that the what-if study found in its traces (arXiv 2505.05713, section 5).
// Hints, not verdicts: each has its number and the value from which the study takes it for a sign.
//
// Pure; called by `pacectl whatif`.
#pragma once

#include <string>
#include <vector>

#include "analysis/whatif/analysis.h"
#include "analysis/whatif/model.h"

namespace paceline::analysis {

struct CauseHint {
  std::string cause;  // "faulty-worker", "last-stage", "sequence-length", "garbage-collection", "network"
  double value = 0;
  double threshold = 0;
  std::string text;  // for people: what was seen, what to do
};

// Empty when the slowdown is below the threshold of the decomposition.
std::vector<CauseHint> FindCauses(const WhatIfModel& model, const WhatIfResult& result);

// Correlation of the forward and backward durations of the same micro-batch, after the mean of each worker is taken
// away (a slow worker is no sign of long sequences). 0 with too little scatter to say.
double ForwardBackwardCorrelation(const WhatIfModel& model);

}  // namespace paceline::analysis
