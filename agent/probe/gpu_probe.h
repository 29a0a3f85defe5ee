// How fast the node's GPUs are, through the CUDA driver alone: multiply-adds in registers, copies in their memory, from
// the host, and between two of them. Of several GPUs the slowest counts. Callers: the probe suite, in a process of its
// own. Blocks for about 1 s for each GPU, and for what the driver takes to start.
#pragma once

#include <string>

#include "agent/probe/measurement.h"

namespace paceline::agent {

struct GpuProbeOptions {
  std::string library = "libcuda.so.1";              // handed to dlopen
  Duration length = std::chrono::milliseconds(200);  // of each measurement
};

// Missing, as not there, without a driver or a device; missing, as failed, when one GPU cannot be measured, since what
// the others do says nothing of that one.
Measurement MeasureGpus(const GpuProbeOptions& options, const Clock& clock);

}  // namespace paceline::agent
