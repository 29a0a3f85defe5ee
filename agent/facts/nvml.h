// NVIDIA driver and GPUs through NVML, the driver's own library. It is opened at run time: nodes without a GPU do not
// have it, and the program must not depend on it. Called by CollectNodeFacts. Safe from any thread.
#pragma once

#include <string>

#include "agent/facts/node_facts.h"

namespace paceline::agent {

// Opens `library` (a name for dlopen), asks, and shuts it down again. Without the library, without a driver or without
// a device the answer says so in `detail`; nothing here is an error. May block in the driver.
GpuFacts QueryGpus(const std::string& library);

}  // namespace paceline::agent
