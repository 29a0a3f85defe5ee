// One probe of this node: the checks that are asked for, one after the other, and how they travel as JSON from the
// process that measures to the agent (docs/formats/node-probe.md). Callers: the probe command; the agent reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/api/node_probe.h"
#include "lib/base/clock.h"
#include "lib/base/filesystem.h"
#include "lib/base/result.h"

namespace paceline::agent {

// Raised whenever figures of before are not comparable with those of after.
inline constexpr int64_t kProbeMethod = 1;

struct ProbeSuiteOptions {
  std::vector<api::ProbeCheck> checks;  // empty: all
  std::vector<api::ProbePeer> peers;
  std::string scratch_folder;
  std::string nvml_library;
  std::string cuda_library;
};

// Blocks for some seconds for each check, on all processors. `host`: where /proc is looked at. State and round are the
// caller's.
api::ProbeStatus RunProbeSuite(const ProbeSuiteOptions& options, const FileSystem& host, const Clock& clock);

std::string RenderProbe(const api::ProbeStatus& status);
// kDataLoss for what is not such a text, or is more than a status may hold.
Result<api::ProbeStatus> ParseProbe(std::string_view text);

// "model name" of the first processor in /proc/cpuinfo; empty when it says none.
std::string CpuModelOf(std::string_view cpuinfo);

}  // namespace paceline::agent
