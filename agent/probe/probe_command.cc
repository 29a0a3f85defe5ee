#include "agent/probe/probe_command.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>

#include "agent/probe/probe_suite.h"
#include "lib/base/config.h"
#include "lib/base/filesystem.h"
#include "lib/kube/config_exec.h"
#include "lib/net/http_client.h"

namespace paceline::agent {
namespace {

constexpr int kLowestPriority = 19;

struct ProbeConfig {
  std::vector<std::string> checks;
  std::vector<std::string> peers;
  std::string scratch_folder = "/var/tmp";
  std::string host_root;
  std::string nvml_library = "libnvidia-ml.so.1";
  std::string cuda_library = "libcuda.so.1";
};

std::vector<std::string> CheckNames() {
  std::vector<std::string> names;
  for (const api::ProbeCheck check : api::kAllProbeChecks) names.emplace_back(api::ProbeCheckText(check));
  return names;
}

void Describe(ConfigSpec& spec, ProbeConfig* config) {
  spec.Add("checks", &config->checks, "What to measure. Empty: all.").OneOf(CheckNames());
  spec.Add("peers", &config->peers, "Agents to measure the network with, each as NODE=HOST:PORT.");
  spec.Add("scratchFolder", &config->scratch_folder, "Where a file of 128 MiB is made to measure the disk.");
  spec.Add("hostRoot", &config->host_root, "Where the host's root is mounted.");
  spec.Add("nvmlLibrary", &config->nvml_library, "NVIDIA's management library, opened if it is there.");
  spec.Add("cudaLibrary", &config->cuda_library, "The CUDA driver's library, opened if it is there.");
}

// Whatever else runs here goes first, and when memory is short this process is the one that ends.
void GiveWay() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpriority(PRIO_PROCESS, 0, kLowestPriority);
  if (std::FILE* file = std::fopen("/proc/self/oom_score_adj", "w")) {
    std::fputs("1000", file);
    std::fclose(file);
  }
}

}  // namespace

int RunProbeCommand(int argc, char** argv) {
  ProbeConfig config;
  ConfigSpec spec("paceline-agent probe", "Measures this machine and prints what it found as JSON.");
  Describe(spec, &config);
  if (const std::optional<int> code = spec.ParseForMain(argc, argv)) return *code;
  GiveWay();
  if (const Status threads = net::InitHttpThreads(1); !threads.ok()) return 1;
  ProbeSuiteOptions options{{}, {}, config.scratch_folder, config.nvml_library, config.cuda_library};
  for (const std::string& name : config.checks) {
    if (const auto check = api::ParseProbeCheck(name)) options.checks.push_back(*check);
  }
  for (const std::string& peer : config.peers) {
    const size_t equals = peer.find('=');
    if (equals != std::string::npos) options.peers.push_back({peer.substr(0, equals), peer.substr(equals + 1)});
  }
  const RealClock clock;
  const std::string text = RenderProbe(RunProbeSuite(options, RealFileSystem(config.host_root), clock));
  std::printf("%s\n", text.c_str());
  return 0;
}

Result<api::ProbeStatus> RunProbeChild(const ProbeChildOptions& options, const api::ProbeRequest& request,
                                       const Clock& clock, std::stop_token stop) {
  std::vector<std::string> arguments{
      "probe",          "--scratch-folder",  options.scratch_folder, "--nvml-library", options.nvml_library,
      "--cuda-library", options.cuda_library};
  if (!options.host_root.empty()) arguments.insert(arguments.end(), {"--host-root", options.host_root});
  for (const api::ProbeCheck check : request.checks) {
    arguments.insert(arguments.end(), {"--checks", std::string(api::ProbeCheckText(check))});
  }
  for (const api::ProbePeer& peer : request.peers) {
    arguments.insert(arguments.end(), {"--peers", peer.node + "=" + peer.address});
  }
  ASSIGN_OR_RETURN(const std::string text, kube::RunProgram(options.program, arguments, {},
                                                            Deadline::After(clock, options.limit), clock, stop));
  return ParseProbe(text);
}

}  // namespace paceline::agent
