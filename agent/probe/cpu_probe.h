// How fast the node's processors are: integer and floating-point work on one thread, then on all. What a node gets less
// of, by a quota or by other load, shows as well as a slow processor: both slow a job. Callers: the probe suite, in a
// process of its own. Blocks for some 2 s with the usual options.
#pragma once

#include "agent/probe/measurement.h"

namespace paceline::agent {

struct CpuProbeOptions {
  // Longer than the period of a CPU quota (100 ms), or a throttled node would seem fast in its first part.
  Duration slice = std::chrono::milliseconds(400);
  int slices = 3;   // odd; the middle one counts
  int threads = 0;  // 0: as many as this process may run on
};

// Never without figures.
Measurement MeasureCpu(const CpuProbeOptions& options, const Clock& clock);

// Processors that this process may run on; at least 1.
int UsableProcessors();

}  // namespace paceline::agent
