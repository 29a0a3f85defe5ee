// paceline-holder: serves until SIGTERM. "paceline-holder list [SOCKET]" shows what it holds.
#include <fmt/format.h>

#include <cstdio>

#include "holder/config.h"
#include "holder/protocol.h"
#include "holder/server.h"
#include "lib/base/local_socket.h"
#include "lib/base/stop_signal.h"

namespace paceline::holder {
namespace {

int RunList(const std::string& socket) {
  constexpr Duration kListLimit = std::chrono::seconds(5);
  constexpr size_t kMaxAnswerBytes = 16 << 20;
  const RealClock clock;
  const Result<std::string> answer =
      AskLocal(socket, R"({"version":1,"command":"list"})", kMaxAnswerBytes, clock, Deadline::After(clock, kListLimit));
  if (!answer.ok()) {
    fmt::print(stderr, "paceline-holder: {}\n", answer.status().message());
    return 1;
  }
  fmt::print("{}", *answer);
  return 0;
}

int Main(int argc, char** argv) {
  HolderConfig config;
  if (argc > 1 && std::string_view(argv[1]) == "list") {
    CompleteHolderConfig(&config);
    return RunList(argc > 2 ? argv[2] : config.socket);
  }
  ConfigSpec spec = DescribeHolderConfig(&config);
  if (const std::optional<int> code = spec.ParseForMain(argc, argv)) return *code;
  CompleteHolderConfig(&config);
  StopSignal stop;
  const RealClock clock;
  auto log = Logger::ToStderr("paceline-holder", config.log_level, config.log_format);
  log->Info("starting", {{"config", spec.DescribeLine()}});
  const Status status = RunHolder(config, clock, *log, stop.token());
  if (status.ok()) return 0;
  log->Error("holder cannot run", {{"error", status}});
  return 1;
}

}  // namespace
}  // namespace paceline::holder

int main(int argc, char** argv) { return paceline::holder::Main(argc, argv); }
