// paceline-operator: wiring only. What it does is in operator.h.
#include <cstdio>

#include "lib/base/config.h"
#include "lib/base/stop_signal.h"
#include "lib/base/version.h"
#include "lib/kube/config.h"
#include "lib/kube/rest_client.h"
#include "lib/net/http_client.h"
#include "operator/config.h"
#include "operator/operator.h"

namespace paceline {
namespace {

Status RunOperator(const operator_::OperatorConfig& config, const ConfigSpec& spec, StopSignal& signal, Logger& log) {
  log.Info("starting", {{"version", Version()}, {"revision", Revision()}, {"config", spec.DescribeLine()}});
  RETURN_IF_ERROR(net::InitHttpThreads(4));
  RealClock clock;
  const auto metrics = MetricsRegistry::Create();
  ASSIGN_OR_RETURN(const kube::KubeConfig kube_config,
                   kube::LoadKubeConfig({.kubeconfig = config.kubeconfig, .context = config.context}));
  kube::RestOptions rest{
      .qps = config.api_qps, .burst = config.api_burst, .user_agent = "paceline-operator/" + std::string(Version())};
  ASSIGN_OR_RETURN(const auto transport, kube::NewApiTransport(kube_config, rest, *metrics, clock));
  ASSIGN_OR_RETURN(const auto lease_transport, kube::NewApiTransport(kube_config, rest, *metrics, clock));
  const auto client = kube::NewRestClient(*transport, clock);
  const auto lease_client = kube::NewRestClient(*lease_transport, clock);
  ASSIGN_OR_RETURN(const auto made,
                   operator_::Operator::Create(config, {*transport, *client, *lease_client, clock, log, *metrics}));
  return made->Run(signal.token());
}

int Main(int argc, char** argv) {
  StopSignal signal;
  operator_::OperatorConfig config;
  ConfigSpec spec = operator_::OperatorConfigSpec(config);
  if (const std::optional<int> code = spec.ParseForMain(argc, argv)) return *code;
  const auto log = Logger::ToStderr("paceline-operator", config.log_level, config.log_format);
  const Status result = RunOperator(config, spec, signal, *log);
  if (result.ok()) return 0;
  log->Error("ended", {{"error", result}});
  return 1;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
