// A trace and its ideal as Chrome trace JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
//
// A process per worker with what was measured, a process per stage with the ideal (the same on every data-parallel
// rank), in each a track for computation and one for each kind of transfer. Called by `pacectl whatif --perfetto`.
#pragma once

#include <ostream>

#include "analysis/whatif/analysis.h"
#include "analysis/whatif/model.h"
#include "analysis/whatif/trace.h"
#include "lib/base/result.h"

namespace paceline::analysis {

// Writes to `out` as it goes: memory does not grow with the trace. The steps of `result` one after another, each at the
// same place in the measured and the ideal processes; times in microseconds. kUnavailable when `out` fails. Blocks for
// the disk behind `out`.
Status WritePerfetto(const StepTrace& trace, const WhatIfModel& model, const WhatIfResult& result, std::ostream& out);

}  // namespace paceline::analysis
