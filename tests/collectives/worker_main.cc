// collectives-worker: one rank of an emulated training job that drives the NCCL plugin. Options are name=value:
//
//   rank=2 addresses=host:port,... listen=host:port | listen-fd=N  ranks-per-node=1 channels=2 slice-bytes=65536 abi=6
//   comm=dp=0,1,2,3 (again for each)  schedule=TEXT  iterations=N  check=0 (of results)  and the faults hang-at,
//   hang-in-call-at, kernel-stuck-at, mismatch-at, swap-at (numbers of operations), extra-compute-us,
//   extra-compute-from (an operation)
//
// The plugin is that of NCCL_PROFILER_PLUGIN, when set, and takes PACELINE_TRACE_DIR and the rest from the environment.
// Exit codes: 0 all results right, 1 not.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/collectives/trainer.h"

namespace paceline::collectives {
namespace {

std::optional<uint64_t> Number(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); }

struct Arguments {
  TrainerOptions options;
  UniqueFd listener;
};

Status TakeFault(const std::string& name, const std::string& value, Faults& faults) {
  if (name == "hang-at") {
    faults.hang_at = Number(value);
  } else if (name == "hang-in-call-at") {
    faults.hang_in_call_at = Number(value);
  } else if (name == "kernel-stuck-at") {
    faults.kernel_stuck_at = Number(value);
  } else if (name == "mismatch-at") {
    faults.mismatch_at = Number(value);
  } else if (name == "swap-at") {
    faults.swap_at = Number(value);
  } else if (name == "extra-compute-us") {
    faults.extra_compute_us = *Number(value);
  } else if (name == "extra-compute-from") {
    faults.extra_compute_from = *Number(value);
  } else {
    return InvalidArgumentError("unknown option " + name);
  }
  return Status();
}

Status TakeAddresses(std::string value, std::vector<std::string>& addresses) {
  for (size_t comma = 0; comma != std::string::npos; value.erase(0, comma + 1)) {
    comma = value.find(',');
    addresses.push_back(value.substr(0, comma));
    if (comma == std::string::npos) break;
  }
  return Status();
}

Status Take(const std::string& name, const std::string& value, Arguments& arguments) {
  TrainerOptions& options = arguments.options;
  RankSettings& settings = options.settings;
  const auto number = static_cast<uint32_t>(*Number(value));
  if (name == "rank") {
    settings.rank = number;
  } else if (name == "ranks-per-node") {
    settings.ranks_per_node = number;
  } else if (name == "channels") {
    settings.channels = number;
  } else if (name == "slice-bytes") {
    settings.slice_bytes = number;
  } else if (name == "abi") {
    settings.version = static_cast<int>(number);
  } else if (name == "iterations") {
    options.iterations = number;
  } else if (name == "check") {
    options.checks_results = number != 0;
  } else if (name == "addresses") {
    return TakeAddresses(value, options.addresses);
  } else if (name == "listen-fd") {
    arguments.listener.Reset(static_cast<int>(number));
  } else if (name == "listen") {
    ASSIGN_OR_RETURN(arguments.listener, Listen(value));
  } else if (name == "comm") {
    ASSIGN_OR_RETURN(CommDescription comm, ParseComm(value, static_cast<uint32_t>(options.comms.size())));
    options.comms.push_back(std::move(comm));
  } else if (name == "schedule") {
    ASSIGN_OR_RETURN(options.items, ParseSchedule(value));
  } else {
    return TakeFault(name, value, options.faults);
  }
  return Status();
}

Status RunWorker(int argc, char** argv) {
  Arguments arguments;
  if (const char* plugin = std::getenv("NCCL_PROFILER_PLUGIN")) arguments.options.plugin = plugin;
  for (int i = 1; i < argc; i++) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    if (equals == std::string::npos) return InvalidArgumentError("want name=value, not " + argument);
    RETURN_IF_ERROR(Take(argument.substr(0, equals), argument.substr(equals + 1), arguments));
  }
  ASSIGN_OR_RETURN(auto trainer, Trainer::Create(std::move(arguments.options), std::move(arguments.listener)));
  return trainer->Run();
}

}  // namespace
}  // namespace paceline::collectives

int main(int argc, char** argv) {
  const paceline::Status status = paceline::collectives::RunWorker(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "collectives-worker: %s\n", status.ToString().c_str());
  return 1;
}
