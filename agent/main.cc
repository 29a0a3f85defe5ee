// paceline-agent: the DaemonSet process. Wiring only.
#include <string_view>

#include "agent/config.h"
#include "agent/probe/probe_command.h"
#include "agent/run.h"
#include "lib/base/clock.h"
#include "lib/base/config.h"
#include "lib/base/log.h"
#include "lib/base/stop_signal.h"
#include "lib/net/http_client.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "probe") return paceline::agent::RunProbeCommand(argc - 1, argv + 1);
  paceline::agent::AgentConfig config;
  paceline::ConfigSpec spec = paceline::agent::DescribeAgentConfig(&config);
  if (const std::optional<int> code = spec.ParseForMain(argc, argv)) return *code;
  paceline::agent::CompleteAgentConfig(&config);

  paceline::StopSignal stop;
  paceline::RealClock clock;
  auto log = paceline::Logger::ToStderr("paceline-agent", config.log_level, config.log_format);
  log->Info("starting", {{"config", spec.DescribeLine()}});
  paceline::Status status = paceline::net::InitHttpThreads(4);
  if (status.ok()) status = paceline::agent::RunAgent(config, clock, *log, stop.token());
  if (status.ok()) return 0;
  log->Error("agent cannot run", {{"error", status}});
  return 1;
}
