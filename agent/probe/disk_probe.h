// How fast the disk under the agent's state is: a scratch file without a name, read in order and at random, past the
// page cache where the file system allows it. Callers: the probe suite, in a process of its own. Blocks for about 5 s
// at most, but for what a disk that hangs holds up inside a system call.
#pragma once

#include <string>

#include "agent/probe/measurement.h"

namespace paceline::agent {

struct DiskProbeOptions {
  std::string folder;  // where the file is made
  size_t bytes = 128u << 20;
  // A disk that is too slow to write all of it within this is read as far as it was written.
  Duration write_limit = std::chrono::seconds(2);
  Duration read_length = std::chrono::milliseconds(700);  // of each of the two kinds
};

// Missing when the file cannot be made, or less than ten times its size is free.
Measurement MeasureDisk(const DiskProbeOptions& options, const Clock& clock);

}  // namespace paceline::agent
