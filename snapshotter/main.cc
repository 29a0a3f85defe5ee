// paceline-snapshotter: mounts converted images, for containerd (plugin/) or by hand. Flags, signals and the way to the
// background; the rest is in plugin/, serve.cc and commands.cc.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "lib/base/daemon.h"
#include "lib/base/stop_signal.h"
#include "lib/base/unique_fd.h"
#include "snapshotter/commands.h"
#include "snapshotter/plugin/run_plugin.h"
#include "snapshotter/serve.h"

namespace paceline::snapshotter {
namespace {

constexpr char kUsage[] =
    "usage: paceline-snapshotter plugin [...]   (plugin --help)\n"
    "       paceline-snapshotter keep [...]   (keep --help)\n"
    "       paceline-snapshotter serve --store URL --image DIGEST --directory DIR [...]   (serve --help)\n"
    "       paceline-snapshotter unmount DIR [--force] [--state-folder FOLDER]\n"
    "       paceline-snapshotter ask DIR stats|settle|hotset [--state-folder FOLDER]\n";

int RunServe(const ServeConfig& config, const ConfigSpec& spec, UniqueFd word) {
  StopSignal stop;
  const RealClock clock;
  auto log = Logger::ToStderr("paceline-snapshotter", config.log_level, config.log_format);
  log->Debug("starting", {{"config", spec.DescribeLine()}});
  const Status status = Serve(config, clock, *log, stop, [&](const std::string& summary) {
    if (config.runs_as_daemon) return LeaveTerminal(config.log_file, summary, word);
    fmt::print("{}\n", summary);
    std::fflush(stdout);
    return Status();
  });
  if (status.ok()) return 0;
  log->Error("mount failed", {{"error", status}});
  return 1;
}

int ServeCommand(int argc, char** argv) {
  ServeConfig config;
  ConfigSpec spec = DescribeServeConfig(&config);
  if (const std::optional<int> code = spec.ParseForMain(argc - 1, argv + 1)) return *code;
  if (!config.runs_as_daemon) return RunServe(config, spec, UniqueFd());
  return RunInBackground([&](UniqueFd word) { return RunServe(config, spec, std::move(word)); });
}

int PluginCommand(int argc, char** argv) {
  PluginConfig config;
  ConfigSpec spec = DescribePluginConfig(&config);
  if (const std::optional<int> code = spec.ParseForMain(argc - 1, argv + 1)) return *code;
  StopSignal stop;
  const RealClock clock;
  auto log = Logger::ToStderr("paceline-snapshotter", config.log_level, config.log_format);
  log->Info("starting", {{"config", spec.DescribeLine()}});
  const Status status = RunPlugin(config, clock, *log, stop.token());
  if (status.ok()) return 0;
  log->Error("plugin cannot run", {{"error", status}});
  return 1;
}

int KeepCommand(int argc, char** argv) {
  KeeperConfig config;
  ConfigSpec spec = DescribeKeeperConfig(&config);
  if (const std::optional<int> code = spec.ParseForMain(argc - 1, argv + 1)) return *code;
  StopSignal stop;
  const RealClock clock;
  auto log = Logger::ToStderr("paceline-snapshotter-keep", config.log_level, config.log_format);
  const Status status = RunKeeper(config, clock, *log, stop.token());
  if (status.ok()) return 0;
  log->Error("keeper cannot run", {{"error", status}});
  return 1;
}

struct PlaceArguments {
  std::vector<std::string> words;
  std::string state_folder = ServeConfig().state_folder;
  bool is_forced = false;
};

PlaceArguments ReadPlaceArguments(int argc, char** argv) {
  PlaceArguments arguments;
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--force") {
      arguments.is_forced = true;
    } else if (word == "--state-folder" && i + 1 < argc) {
      arguments.state_folder = argv[++i];
    } else {
      arguments.words.emplace_back(word);
    }
  }
  return arguments;
}

int Fail(const Status& status) {
  fmt::print(stderr, "paceline-snapshotter: {}\n", status.message());
  return 1;
}

int Main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "plugin") return PluginCommand(argc, argv);
  if (command == "keep") return KeepCommand(argc, argv);
  if (command == "serve") return ServeCommand(argc, argv);
  const PlaceArguments arguments = ReadPlaceArguments(argc, argv);
  const RealClock clock;
  if (command == "unmount" && arguments.words.size() == 1) {
    const Status status = UnmountImage(arguments.state_folder, arguments.words[0],
                                       arguments.is_forced ? Detach::kLazily : Detach::kNo, clock);
    return status.ok() ? 0 : Fail(status);
  }
  if (command == "ask" && arguments.words.size() == 2) {
    const Result<std::string> answer = AskMount(arguments.state_folder, arguments.words[0], arguments.words[1], clock);
    if (!answer.ok()) return Fail(answer.status());
    fmt::print("{}\n", *answer);
    return 0;
  }
  fmt::print(stderr, "{}", kUsage);
  return 2;
}

}  // namespace
}  // namespace paceline::snapshotter

int main(int argc, char** argv) { return paceline::snapshotter::Main(argc, argv); }
