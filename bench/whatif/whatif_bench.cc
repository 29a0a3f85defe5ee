// Time and memory of the what-if analysis on a made-up job of any size: workers whose operations scatter by 10 %, one
// of them slower. Report on stdout.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <random>
#include <thread>

#include "analysis/whatif/analysis.h"
#include "analysis/whatif/hints.h"
#include "analysis/whatif/model.h"
#include "analysis/whatif/report.h"
#include "analysis/whatif/simulator.h"
#include "lib/base/clock.h"
#include "tests/whatif/synthetic_trace.h"

namespace paceline::analysis {
namespace {

struct Options {
  int dp = 1250, pp = 8, micro_batches = 4, steps = 100;
  int threads = 0;
};

double SecondsBetween(TimePoint from, TimePoint to) { return std::chrono::duration<double>(to - from).count(); }

double PeakGigabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e9;
}

// Of all threads, user and system: less disturbed by other work on the machine than time on the clock.
double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void Reserve(StepTrace& trace, size_t rows) {
  trace.dp_rank.reserve(rows);
  trace.stage.reserve(rows);
  trace.rank.reserve(rows);
  trace.step.reserve(rows);
  trace.type.reserve(rows);
  trace.start.reserve(rows);
  trace.duration.reserve(rows);
  trace.seq.reserve(rows);
  trace.mc.reserve(rows);
  trace.gmc.reserve(rows);
}

// A small job gives the operations and their order, the simulator plays them with scattered times on all ranks.
StepTrace MakeTrace(const Options& options) {
  SyntheticJob job;
  job.dp = 2;
  job.pp = options.pp;
  job.micro_batches = options.micro_batches;
  job.steps = 1;
  auto model = BuildWhatIfModel(Play(job).trace);
  if (!model.ok()) return {};
  const DependencyGraph& graph = model->graph;
  const auto lanes = static_cast<size_t>(options.dp);
  StepTrace trace;
  trace.shape = {"bench", 0, options.dp, 1, options.pp, 1, 1, options.dp * options.pp};
  Reserve(trace, graph.ops.size() * lanes * static_cast<size_t>(options.steps));
  Simulator simulator(graph, lanes, lanes);
  std::minstd_rand random(1);
  std::uniform_real_distribution<double> scatter(0.95, 1.05);
  for (int step = 0; step < options.steps; step++) {
    simulator.Run([&](size_t op, double* row) {
      const double usual = model->lanes.ideal[static_cast<size_t>(graph.ops[op].type)];
      for (size_t lane = 0; lane < lanes; lane++) row[lane] = usual * scatter(random);
      if (graph.ops[op].stage == options.pp / 2) row[lanes / 3] *= 1.5;
    });
    for (size_t op = 0; op < graph.ops.size(); op++) {
      const GraphOp& at = graph.ops[op];
      for (size_t lane = 0; lane < lanes; lane++) {
        const double start = simulator.StartsOf(op)[lane];
        trace.dp_rank.push_back(static_cast<int16_t>(lane));
        trace.stage.push_back(at.stage);
        trace.rank.push_back(static_cast<int32_t>(lane) * options.pp + at.stage);
        trace.step.push_back(step);
        trace.type.push_back(at.type);
        trace.start.push_back(static_cast<float>(start));
        trace.duration.push_back(static_cast<float>(simulator.EndsOf(op)[lane] - start));
        trace.seq.push_back(at.seq);
        trace.mc.push_back(at.mc);
        trace.gmc.push_back(at.gmc);
      }
    }
  }
  return trace;
}

Status Measure(const Options& options) {
  const int threads =
      options.threads > 0 ? options.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const StepTrace trace = MakeTrace(options);
  RETURN_IF_ERROR(CheckTrace(trace));
  fmt::print("{} workers ({} x {}), {} steps, {} rows; {:.2f} GB with the trace in memory\n", options.dp * options.pp,
             options.dp, options.pp, options.steps, trace.rows(), PeakGigabytes());
  const RealClock clock;
  const double cpu_before = CpuSeconds();
  const TimePoint begin = clock.Now();
  ASSIGN_OR_RETURN(const WhatIfModel model, BuildWhatIfModel(trace));
  const TimePoint built = clock.Now();
  ASSIGN_OR_RETURN(const WhatIfResult result, AnalyzeModel(trace, model, {.threads = threads}));
  const TimePoint analyzed = clock.Now();
  const std::vector<CauseHint> hints = FindCauses(model, result);
  const TimePoint hinted = clock.Now();
  const std::string report = RenderReport({trace, model, result, hints, {}});
  const TimePoint reported = clock.Now();
  fmt::print("model {:.2f} s, analysis {:.2f} s ({} threads), hints {:.2f} s, report {:.2f} s ({} kB)\n",
             SecondsBetween(begin, built), SecondsBetween(built, analyzed), threads, SecondsBetween(analyzed, hinted),
             SecondsBetween(hinted, reported), report.size() / 1000);
  fmt::print("in all {:.2f} s, {:.2f} s of CPU, {:.2f} GB at most; S {:.4f}, slowest worker dp {} stage {}\n",
             SecondsBetween(begin, reported), CpuSeconds() - cpu_before, PeakGigabytes(), result.slowdown,
             result.slowest_workers.empty() ? -1 : result.slowest_workers[0].first,
             result.slowest_workers.empty() ? -1 : result.slowest_workers[0].second);
  return Status();
}

int Main(int argc, char** argv) {
  CLI::App app{"Time and memory of the what-if analysis"};
  Options options;
  app.add_option("--dp", options.dp, "data-parallel ranks")->check(CLI::Range(2, 30000))->capture_default_str();
  app.add_option("--pp", options.pp, "pipeline stages")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--micro-batches", options.micro_batches, "of a step")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--steps", options.steps, "steps")->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--threads", options.threads, "threads (as many as cores unless given)");
  CLI11_PARSE(app, argc, argv);
  const Status done = Measure(options);
  if (done.ok()) return 0;
  fmt::print(stderr, "whatif-bench: {}\n", done.message());
  return 1;
}

}  // namespace
}  // namespace paceline::analysis

int main(int argc, char** argv) { return paceline::analysis::Main(argc, argv); }
