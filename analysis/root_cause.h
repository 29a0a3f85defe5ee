// From the tables of a run's processes to who or what keeps it from going on.
//
// The walk: is every process alive; do all ranks call the same; who has not launched what the others wait in (and if
// that rank waits in another communicator, the same there); where all have launched, which edge of which channel is
// behind, and what its two ends wait for. The idea of comparing progress over ranks and channels is that of Mycroft
// (SOSP'25); the counters are those that NCCL gives a profiler plugin. Pure functions, any thread; time is linear in
// the tables. The operator calls it on a trigger, pacectl on a file.
//
// What the devices of the nodes in question say of themselves (GPUs, network cards) is added to the evidence; no
// verdict hangs on it.
//
// Missing data is never a verdict: what was not there is named, lowers the confidence, and where the answer would hang
// on it the answer is kUnknown.
#pragma once

#include "analysis/trace_model.h"

namespace paceline::analysis {

struct DiagnoseOptions {
  // What has changed within this time is taken to go on.
  Duration still = std::chrono::seconds(1);
  // A proxy thread that waits for a processor, or is throttled, for this share of the time is slow; for the other, it
  // stands still.
  double starved_share = 0.5;
  double stopped_share = 0.85;
};

// kNone: nothing stands still that should go on (all ranks at one place, as in a checkpoint pause, or all moving).
Verdict Diagnose(const Tables& tables, const DiagnoseOptions& options = {});

}  // namespace paceline::analysis
