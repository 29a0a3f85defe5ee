// `paceline-agent probe`: measures this machine once, as a process of its own that gives way to all others, and prints
// what it found as JSON. The agent starts it for each probe, so that neither the time nor the memory that a probe takes
// is the agent's, and a crash in a driver ends the probe only; people start it on bare metal.
#pragma once

#include <stop_token>
#include <string>

#include "lib/api/node_probe.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::agent {

// The command's main function; `argv` begins with the word "probe".
int RunProbeCommand(int argc, char** argv);

struct ProbeChildOptions {
  std::string program = "/proc/self/exe";
  std::string host_root;
  std::string scratch_folder;
  std::string nvml_library;
  std::string cuda_library;
  Duration limit = std::chrono::seconds(90);  // then it is killed; a probe takes some 10 s
};

// Runs the command for `request` and reads its answer. Blocks until it ends, `stop` or the limit; then it is killed.
// kCancelled after a stop, kDeadlineExceeded at the limit, kUnavailable when it fails, kDataLoss for what it says else.
Result<api::ProbeStatus> RunProbeChild(const ProbeChildOptions& options, const api::ProbeRequest& request,
                                       const Clock& clock, std::stop_token stop);

}  // namespace paceline::agent
