// The startup of a run as Chrome trace JSON, which ui.perfetto.dev and chrome://tracing open: a process per node, a
// track per worker, a slice per stage. Pure; called by `pacectl run explain --perfetto`.
#pragma once

#include <string>

#include "lib/api/training_run.h"
#include "lib/base/clock.h"

namespace paceline::cli {

// Times in microseconds from the start's beginning; stages that go on end at `now` (or at the run's end) and say so.
std::string StartupAsPerfetto(const api::TrainingRun& run, WallTime now);

}  // namespace paceline::cli
