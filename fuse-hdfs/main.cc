// paceline-hdfs-mount URI DIR: one mount. Flags, signals and the way to the background; the rest is in run.cc.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "fuse-hdfs/config.h"
#include "fuse-hdfs/control_server.h"
#include "fuse-hdfs/run.h"
#include "lib/base/daemon.h"
#include "lib/base/stop_signal.h"
#include "lib/base/unique_fd.h"

namespace paceline::fuse_hdfs {
namespace {

constexpr Duration kControlLimit = std::chrono::minutes(10);

// paceline-hdfs-mount control SOCKET COMMAND...
int RunControl(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(
        stderr,
        "usage: paceline-hdfs-mount control SOCKET stats|metrics|flush|drop-caches|prefetch PATH|log-level LEVEL\n");
    return 2;
  }
  std::string line;
  for (int i = 3; i < argc; ++i) line += (i > 3 ? " " : "") + std::string(argv[i]);
  const RealClock clock;
  Result<std::string> answer = AskControlServer(argv[2], line, clock, Deadline::After(clock, kControlLimit));
  if (!answer.ok()) {
    fmt::print(stderr, "paceline-hdfs-mount: {}\n", answer.status().message());
    return 1;
  }
  fmt::print("{}", *answer);
  return answer->rfind("error:", 0) == 0 ? 1 : 0;
}

Status WritePidFile(const MountConfig& config) {
  if (config.pid_file.empty()) return Status();
  std::ofstream file(config.pid_file);
  file << getpid() << "\n";
  file.close();
  return file ? Status() : UnavailableError("cannot write " + config.pid_file);
}

int Serve(const MountConfig& config, const ConfigSpec& spec, UniqueFd word) {
  StopSignal stop;
  const RealClock clock;
  auto log = Logger::ToStderr("paceline-hdfs-mount", config.log_level, config.log_format);
  log->Debug("starting", {{"config", spec.DescribeLine()}});
  const Status status = RunMount(config, clock, *log, stop.token(), [&] {
    RETURN_IF_ERROR(WritePidFile(config));
    return config.runs_as_daemon ? LeaveTerminal(config.log_file, "", word) : Status();
  });
  if (!config.pid_file.empty()) unlink(config.pid_file.c_str());
  if (status.ok()) return 0;
  log->Error("mount failed", {{"error", status}});
  return 1;
}

int Main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "control") return RunControl(argc, argv);
  MountConfig config;
  ConfigSpec spec = DescribeMountConfig(&config);
  const std::vector<std::string> args = NamePositionals(spec, std::vector<std::string>(argv + 1, argv + argc));
  std::vector<const char*> words = {argv[0]};
  for (const std::string& arg : args) words.push_back(arg.c_str());
  if (const std::optional<int> code = spec.ParseForMain(static_cast<int>(words.size()), words.data())) return *code;
  if (!config.runs_as_daemon) return Serve(config, spec, UniqueFd());
  return RunInBackground([&](UniqueFd word) { return Serve(config, spec, std::move(word)); });
}

}  // namespace
}  // namespace paceline::fuse_hdfs

int main(int argc, char** argv) { return paceline::fuse_hdfs::Main(argc, argv); }
