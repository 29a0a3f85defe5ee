// What the operator does between a trigger and its verdict, for a job of any size: it asks the agents of all nodes for
// their tables over HTTP and walks them. A child process plays the agents, each with an address of its own (127.1.x.y);
// memory is that of the asking process. Report on stdout.
//
// The job: `gpus` ranks a node; rank g of each node is in ring g of data parallelism, and all ranks of a node are in
// one communicator of tensor parallelism. The network of one node loses what it sends, in all rings.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <nlohmann/json.hpp>

#include "analysis/root_cause.h"
#include "analysis/tables_json.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/base/log.h"
#include "lib/net/http_client.h"
#include "lib/net/http_server.h"
#include "operator/incident/trace_source.h"
#include "tests/analysis/ring_model.h"

namespace paceline::operator_ {
namespace {

struct Options {
  uint32_t nodes = 1250, gpus = 8, channels = 4, at_steps = 100, broken_node = 617;
  int rounds = 5;
};

std::string AddressOf(uint32_t node) { return fmt::format("127.1.{}.{}", node / 250, node % 250 + 1); }

// The answer of each node's agent.
std::vector<std::string> AnswersOf(const Options& options) {
  std::vector<analysis::Tables> nodes(options.nodes);
  for (uint32_t gpu = 0; gpu < options.gpus; ++gpu) {
    const analysis::RingModel ring(options.nodes, options.channels, collectives::Function::kAllReduce,
                                   {analysis::Fault::kLinkLoses, options.broken_node, options.at_steps});
    analysis::Tables tables = ring.Snapshot();
    for (uint32_t node = 0; node < options.nodes; ++node) {
      analysis::ProcessView& process = tables.processes[node];
      process.world_rank = static_cast<int32_t>(node * options.gpus + gpu);
      process.host = fmt::format("pod-{}", node);
      process.run = "bench/job";
      process.pid = 100 + gpu;
      process.comms[0].id = 1 + gpu;
      process.comms.push_back(
          {1000 + node, "tp", static_cast<int32_t>(gpu), static_cast<int32_t>(options.gpus), 1, true, 400});
      nodes[node].processes.push_back(std::move(process));
    }
  }
  std::vector<std::string> answers;
  for (const analysis::Tables& tables : nodes) answers.push_back(DumpJson(analysis::WriteTables(tables)));
  return answers;
}

// Serves until the other end of `told` is closed, to which the port is written.
int PlayAgents(const Options& options, int told) {
  const std::vector<std::string> answers = AnswersOf(options);
  std::map<std::string, const std::string*> by_host;
  size_t bytes = 0;
  for (uint32_t node = 0; node < options.nodes; ++node) {
    by_host.emplace(AddressOf(node), &answers[node]);
    bytes += answers[node].size();
  }
  std::map<std::string, net::Handler> routes;
  routes["GET /v1/traces/"] = [&](const net::ServerRequest& request, Deadline) {
    const auto named = request.headers.find("Host");
    const std::string host = named == request.headers.end() ? "" : named->second;
    const auto answer = by_host.find(host.substr(0, host.find(':')));
    net::ServerResponse response;
    response.content_type = "application/json";
    if (answer == by_host.end()) {
      response.status = 404;
    } else {
      response.body = *answer->second;
    }
    return response;
  };
  const auto log = Logger::ToStderr("agents", LogLevel::kWarn, LogFormat::kText);
  const Clock& clock = RealClock();
  auto server = net::HttpServer::Start({.max_connections = 4096}, std::move(routes), nullptr, clock, *log);
  if (!server.ok()) return 1;
  const std::string line = fmt::format("{} {}\n", (*server)->port(), bytes);
  if (write(told, line.data(), line.size()) < 0) return 1;
  pause();
  return 0;
}

// Of this process, user and system: less disturbed by other work on the machine than time on the clock.
double CpuMilliseconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto milliseconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  };
  return milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime);
}

double MillisecondsOf(Duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

int Measure(const Options& options, uint16_t port, size_t bytes) {
  const Clock& clock = RealClock();
  const auto source = NewAgentTraceSource(clock);
  std::vector<TracedNode> nodes;
  for (uint32_t node = 0; node < options.nodes; ++node) {
    nodes.push_back({fmt::format("node-{}", node), fmt::format("{}:{}", AddressOf(node), port)});
  }
  fmt::print("{} ranks on {} nodes, {} channels; {:.1f} MB of tables\n", options.nodes * options.gpus, options.nodes,
             options.channels, static_cast<double>(bytes) / 1e6);
  std::vector<double> asking, walking;
  const double cpu_before = CpuMilliseconds();
  for (int round = 0; round < options.rounds; ++round) {
    const TimePoint began = clock.Now();
    const analysis::Tables tables =
        source->TablesOf({"bench", "job"}, nodes, Deadline::After(clock, std::chrono::seconds(60)), {});
    const TimePoint asked = clock.Now();
    const analysis::Verdict verdict = analysis::Diagnose(tables);
    asking.push_back(MillisecondsOf(asked - began));
    walking.push_back(MillisecondsOf(clock.Now() - asked));
    if (round == 0) {
      fmt::print("verdict: {} ({}), missing agents {}\n", analysis::CategoryName(verdict.category), verdict.cause,
                 tables.missing.size());
    }
  }
  std::sort(asking.begin(), asking.end());
  std::sort(walking.begin(), walking.end());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const size_t middle = asking.size() / 2;
  fmt::print(
      "asking all agents {:.0f} ms, the walk {:.0f} ms (medians of {}); {:.0f} ms of processor time a round without "
      "the agents' part; peak {:.0f} MB\n",
      asking[middle], walking[middle], options.rounds, (CpuMilliseconds() - cpu_before) / options.rounds,
      static_cast<double>(usage.ru_maxrss) * 1024 / 1e6);
  return 0;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app{"Time and memory from a trigger to the verdict on a made-up job"};
  app.add_option("--nodes", options.nodes, "nodes, each with an agent")
      ->check(CLI::Range(2, 5000))
      ->capture_default_str();
  app.add_option("--gpus", options.gpus, "ranks of a node")->check(CLI::Range(1, 16))->capture_default_str();
  app.add_option("--channels", options.channels, "of each ring")->check(CLI::Range(1, 32))->capture_default_str();
  app.add_option("--rounds", options.rounds, "repetitions")->check(CLI::Range(1, 1000))->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  options.broken_node = std::min(options.broken_node, options.nodes - 1);
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return 1;
  const pid_t agents = fork();
  if (agents < 0) return 1;
  if (agents == 0) _exit(PlayAgents(options, pipe_ends[1]));
  close(pipe_ends[1]);
  FILE* told = fdopen(pipe_ends[0], "r");
  uint16_t port = 0;
  size_t bytes = 0;
  const bool is_there = told != nullptr && fscanf(told, "%hu %zu", &port, &bytes) == 2;
  const int code = is_there ? Measure(options, port, bytes) : 1;
  kill(agents, SIGKILL);
  waitpid(agents, nullptr, 0);
  return code;
}

}  // namespace
}  // namespace paceline::operator_

int main(int argc, char** argv) { return paceline::operator_::Main(argc, argv); }
