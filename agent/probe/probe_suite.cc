#include "agent/probe/probe_suite.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "agent/facts/nvml.h"
#include "agent/probe/cpu_probe.h"
#include "agent/probe/disk_probe.h"
#include "agent/probe/gpu_probe.h"
#include "agent/probe/memory_probe.h"
#include "agent/probe/network_probe.h"
#include "lib/api/codec.h"
#include "lib/api/node_plan.h"
#include "lib/base/json.h"

namespace paceline::agent {
namespace {

constexpr size_t kLargestCpuInfo = 4u << 20;

Measurement MeasureOne(api::ProbeCheck check, const ProbeSuiteOptions& options, const Clock& clock) {
  switch (check) {
    case api::ProbeCheck::kCpu: return MeasureCpu({}, clock);
    case api::ProbeCheck::kMemory: return MeasureMemory({}, clock);
    case api::ProbeCheck::kDisk: return MeasureDisk({.folder = options.scratch_folder}, clock);
    case api::ProbeCheck::kNetwork: return MeasureNetwork({.peers = options.peers}, clock);
    case api::ProbeCheck::kGpu: return MeasureGpus({.library = options.cuda_library}, clock);
  }
  return {};
}

// Of the GPUs, when all are alike.
std::string GpuModel(const std::string& nvml_library) {
  const GpuFacts facts = QueryGpus(nvml_library);
  std::string model;
  for (const GpuDevice& device : facts.devices) {
    if (!model.empty() && device.model != model) return "mixed";
    model = device.model;
  }
  return model;
}

}  // namespace

std::string CpuModelOf(std::string_view cpuinfo) {
  constexpr std::string_view kKey = "model name";
  for (size_t start = 0; start < cpuinfo.size();) {
    const size_t end = std::min(cpuinfo.find('\n', start), cpuinfo.size());
    const std::string_view line = cpuinfo.substr(start, end - start);
    start = end + 1;
    const size_t colon = line.find(':');
    if (line.substr(0, kKey.size()) != kKey || colon == std::string_view::npos) continue;
    const size_t first = line.find_first_not_of(' ', colon + 1);
    return first == std::string_view::npos ? "" : std::string(line.substr(first, api::kMaxProbeMessageBytes));
  }
  return "";
}

api::ProbeStatus RunProbeSuite(const ProbeSuiteOptions& options, const FileSystem& host, const Clock& clock) {
  api::ProbeStatus status;
  status.started_at = clock.WallNow();
  status.method = kProbeMethod;
  status.cpus = UsableProcessors();
  if (const Result<std::string> text = host.ReadFile("/proc/cpuinfo", kLargestCpuInfo); text.ok()) {
    status.cpu_model = CpuModelOf(*text);
  }
  status.gpu_model = GpuModel(options.nvml_library).substr(0, api::kMaxProbeMessageBytes);
  const auto is_asked = [&](api::ProbeCheck check) {
    return options.checks.empty() ||
           std::find(options.checks.begin(), options.checks.end(), check) != options.checks.end();
  };
  for (const api::ProbeCheck check : api::kAllProbeChecks) {
    if (!is_asked(check)) continue;
    Measurement measured = MeasureOne(check, options, clock);
    std::move(measured.figures.begin(), measured.figures.end(), std::back_inserter(status.figures));
    if (measured.missing) status.missing.push_back(*std::move(measured.missing));
  }
  status.finished_at = clock.WallNow();
  return status;
}

std::string RenderProbe(const api::ProbeStatus& status) {
  api::NodePlan plan;
  plan.status.probe = status;
  return DumpJson(api::ToJson(plan)["status"]["probe"]);
}

Result<api::ProbeStatus> ParseProbe(std::string_view text) {
  const Result<Json> json = ParseJson(text);
  if (!json.ok()) return DataLossError("probe: " + json.status().message());
  const Json object = {{"metadata", {{"name", "probe"}}}, {"spec", Json::object()}, {"status", {{"probe", *json}}}};
  Result<api::NodePlan> plan = api::FromJson<api::NodePlan>(object);
  if (!plan.ok()) return DataLossError("probe: " + plan.status().message());
  if (const auto errors = api::Validate(*plan); !errors.empty())
    return DataLossError("probe: " + api::JoinErrors(errors));
  if (!plan->status.probe) return DataLossError("probe: nothing in it");
  return *std::move(plan->status.probe);
}

}  // namespace paceline::agent
