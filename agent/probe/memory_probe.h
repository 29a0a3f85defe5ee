// How fast the node's memory is: a[i] = b[i] + s * c[i] over arrays that no cache holds (on most machines), by several
// threads, each on its own part. Callers: the probe suite, in a process of its own. Blocks for about 1 s.
#pragma once

#include "agent/probe/measurement.h"

namespace paceline::agent {

struct MemoryProbeOptions {
  size_t bytes = 144u << 20;  // of the three arrays together; the agent's container has 512 MiB as it comes
  Duration length = std::chrono::milliseconds(800);
  int threads = 0;  // 0: as many as this process may run on, 8 at most
};

// Missing when there is no memory for the arrays.
Measurement MeasureMemory(const MemoryProbeOptions& options, const Clock& clock);

}  // namespace paceline::agent
