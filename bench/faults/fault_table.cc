// fault-table: runs every fault of scenarios.h with several seeds and many healthy runs, on emulated jobs of real
// processes with the plugin, watched by the agent's collector and judged as the operator judges. Prints one table.
// Exit code 1 when a fault was not named right or a healthy run got a verdict.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "agent/trace/collector.h"
#include "analysis/root_cause.h"
#include "analysis/slow_link.h"
#include "analysis/tables_json.h"
#include "bench/faults/scenarios.h"
#include "lib/base/filesystem.h"
#include "lib/base/json.h"
#include "operator/incident/judge.h"

namespace paceline::bench {
namespace {

constexpr Duration kPeriod = std::chrono::milliseconds(100);
constexpr Duration kStartLimit = std::chrono::seconds(60);
constexpr uint64_t kUsualOperations = 20;  // that each rank has done before something goes wrong

struct Outcome {
  bool has_started = false;
  std::optional<double> trigger_seconds;  // after the last progress
  std::optional<double> told_seconds;     // after the trigger
  std::string told;                       // what, when it is wrong
  std::string tables;                     // as they were then, for pacectl trace diagnose
  bool is_right = false;
};

class RingFolder {
 public:
  RingFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "paceline-faults.XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~RingFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// One job, from its start to the verdict or the limit.
class Watch {
 public:
  Watch(const Scenario& scenario, unsigned seed)
      : scenario_(scenario),
        random_(seed),
        plan_(scenario.plan(random_)),
        collector_(Options(), files_, clock_, *metrics_) {}

  Outcome Run() {
    Start();
    const Deadline start = Deadline::After(clock_, kStartLimit);
    const uint64_t usual = plan_.strike ? kRanks * kUsualOperations : kRanks;
    while (!outcome_.has_started && !start.Expired(clock_)) {
      Look();
      outcome_.has_started = trigger_.has_value() || Operations() >= usual;
      clock_.SleepFor(kPeriod, {});
    }
    if (plan_.strike) plan_.strike(*job_);
    const Deadline end = Deadline::After(clock_, scenario_.limit);
    while (!end.Expired(clock_) && !outcome_.told_seconds) {
      Look();
      Judge();
      clock_.SleepFor(kPeriod, {});
    }
    if (scenario_.categories.empty()) outcome_.is_right = outcome_.has_started && !outcome_.told_seconds;
    return outcome_;
  }

 private:
  agent::CollectorOptions Options() {
    agent::CollectorOptions options;
    options.folders = [path = folder_.path()] { return std::vector<agent::TraceFolder>{{path, "", ""}}; };
    options.node = "node-a";
    return options;
  }

  void Start() {
    collectives::JobDescription job;
    job.ranks = kRanks;
    job.trace_folder = folder_.path();
    job.options = {"comm=dp=0,1,2,3", "schedule=" + plan_.schedule, "iterations=100000000", "slice-bytes=4096",
                   "check=0"};
    if (plan_.has_second_comm) job.options.push_back("comm=x=0,1,2,3");
    job.of_rank = plan_.of_rank;
    if (plan_.has_slow_link) job.slow_link = std::pair(1u, 2u);
    job_ = std::make_unique<collectives::Job>(job);
  }

  uint64_t Operations() const {
    uint64_t all = 0;
    for (const auto& process : collector_.TablesOf("run-1").processes) {
      for (const auto& comm : process.comms) all += comm.operations;
    }
    return all;
  }

  void Look() {
    std::vector<agent::TraceTrigger> raised = collector_.Sample();
    const uint64_t operations = Operations();
    if (operations != operations_) progress_at_ = clock_.Now();
    operations_ = operations;
    if (!raised.empty() && !trigger_) {
      trigger_ = raised.front();
      triggered_at_ = clock_.Now();
      outcome_.trigger_seconds = ToSeconds(triggered_at_ - progress_at_);
    }
  }

  // As the operator does, at each look: an alert that does not hold any more starts from the beginning.
  void Judge() {
    const std::vector<agent::RunState> states = collector_.States();
    const bool is_open = !states.empty() && !states[0].open.empty();
    if (!is_open) {
      open_since_.reset();
      gaps_ = {};
      return;
    }
    if (!open_since_) open_since_ = clock_.Now();
    const analysis::Tables tables = collector_.TablesOf("run-1");
    gaps_.Add(tables);
    const analysis::Verdict verdict = states[0].open[0].kind == agent::TraceTriggerKind::kSlowdown
                                          ? analysis::DiagnoseSlowdown(tables, gaps_)
                                          : analysis::Diagnose(tables);
    const operator_::Judgement judgement = operator_::Judge(verdict, tables, KindOf(states[0].open[0].kind),
                                                            clock_.Now() - *open_since_, operator_::JudgeOptions());
    if (!judgement.is_incident) return;
    outcome_.told_seconds = ToSeconds(clock_.Now() - triggered_at_);
    std::vector<int32_t> ranks;
    for (const auto& culprit : verdict.culprits) ranks.push_back(culprit.world_rank);
    std::sort(ranks.begin(), ranks.end());
    const auto& right = scenario_.categories;
    outcome_.is_right = std::find(right.begin(), right.end(), verdict.category) != right.end() &&
                        (plan_.culprits.empty() || ranks == plan_.culprits);
    if (outcome_.is_right) return;
    outcome_.told =
        fmt::format("{} {}: {}", analysis::CategoryName(verdict.category), fmt::join(ranks, ","), verdict.cause);
    outcome_.tables = DumpJson(analysis::WriteTables(tables));
  }

  static api::TriggerKind KindOf(agent::TraceTriggerKind kind) {
    switch (kind) {
      case agent::TraceTriggerKind::kStall: return api::TriggerKind::kStall;
      case agent::TraceTriggerKind::kSlowdown: return api::TriggerKind::kSlowdown;
      case agent::TraceTriggerKind::kProcessLost: return api::TriggerKind::kProcessLost;
    }
    return api::TriggerKind::kStall;
  }

  const Scenario& scenario_;
  std::mt19937 random_;
  Plan plan_;
  RingFolder folder_;
  RealFileSystem files_;
  RealClock clock_;
  std::unique_ptr<MetricsRegistry> metrics_ = MetricsRegistry::Create();
  agent::Collector collector_;
  std::unique_ptr<collectives::Job> job_;
  uint64_t operations_ = 0;
  TimePoint progress_at_ = clock_.Now(), triggered_at_{};
  std::optional<agent::TraceTrigger> trigger_;
  std::optional<TimePoint> open_since_;
  analysis::LinkGaps gaps_;
  Outcome outcome_;
};

struct Row {
  Scenario scenario;
  std::vector<Outcome> outcomes;
};

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(std::lround(share * static_cast<double>(values.size() - 1)))];
}

std::string Numbers(const Row& row, std::optional<double> Outcome::*field) {
  std::vector<double> values;
  for (const Outcome& outcome : row.outcomes) {
    if (outcome.*field) values.push_back(*(outcome.*field));
  }
  if (values.empty()) return "-";
  return fmt::format("{:.1f} / {:.1f}", Quantile(values, 0.5), Quantile(values, 1));
}

size_t CountRight(const Row& row) {
  return static_cast<size_t>(
      std::count_if(row.outcomes.begin(), row.outcomes.end(), [](const Outcome& o) { return o.is_right; }));
}

// Of the outcomes that are not right, to be looked into with `pacectl trace diagnose`.
Status SaveTables(const std::vector<Row>& rows, const std::string& folder) {
  RealFileSystem files;
  for (const Row& row : rows) {
    for (size_t seed = 0; seed < row.outcomes.size(); ++seed) {
      const Outcome& outcome = row.outcomes[seed];
      if (outcome.tables.empty()) continue;
      std::string name = fmt::format("{} {}.json", row.scenario.name, seed);
      std::replace(name.begin(), name.end(), '/', '-');
      const std::string path = folder + "/" + name;
      RETURN_IF_ERROR(files.WriteFileAtomically(path, outcome.tables, 0644));
    }
  }
  return Status();
}

void PrintTable(const std::vector<Row>& rows) {
  fmt::print(
      "| fault | named right | trigger s, median / most | told after it s, median / most |\n| --- | --- | --- | --- "
      "|\n");
  for (const Row& row : rows) {
    const std::string right = fmt::format("{} of {}", CountRight(row), row.outcomes.size());
    if (row.scenario.categories.empty()) {
      fmt::print("| healthy: {} | nothing told in {} | {} | |\n", row.scenario.name, right,
                 Numbers(row, &Outcome::trigger_seconds));
    } else {
      fmt::print("| {} | {} | {} | {} |\n", row.scenario.name, right, Numbers(row, &Outcome::trigger_seconds),
                 Numbers(row, &Outcome::told_seconds));
    }
  }
  for (const Row& row : rows) {
    for (size_t seed = 0; seed < row.outcomes.size(); ++seed) {
      const Outcome& outcome = row.outcomes[seed];
      if (!outcome.is_right) {
        fmt::print("not right: {}, seed {}: {}\n", row.scenario.name, seed,
                   !outcome.has_started   ? "did not start"
                   : outcome.told.empty() ? "nothing was told"
                                          : outcome.told);
      }
    }
  }
}

int Main(int argc, char** argv) {
  unsigned seeds = 10, healthy = 100, jobs = 4;
  std::string only, folder;
  CLI::App app("How surely and how fast faults of a traced job are named.");
  app.add_option("--seeds", seeds, "of each fault")->capture_default_str();
  app.add_option("--healthy", healthy, "healthy runs in all")->capture_default_str();
  app.add_option("--jobs", jobs, "at a time")->capture_default_str()->check(CLI::Range(1, 64));
  app.add_option("--only", only, "scenarios whose name contains this");
  app.add_option("--save", folder, "folder for the trace tables of outcomes that are not right");
  CLI11_PARSE(app, argc, argv);

  std::vector<Row> rows;
  const std::vector<Scenario> healthy_runs = HealthyRuns();
  for (const Scenario& scenario : Faults()) rows.push_back({scenario, std::vector<Outcome>(seeds)});
  for (const Scenario& scenario : healthy_runs)
    rows.push_back({scenario, std::vector<Outcome>(healthy / healthy_runs.size())});
  std::erase_if(rows, [&](const Row& row) { return row.scenario.name.find(only) == std::string::npos; });
  std::vector<std::pair<Row*, unsigned>> work;
  for (Row& row : rows) {
    for (unsigned seed = 0; seed < row.outcomes.size(); ++seed) work.emplace_back(&row, seed);
  }
  std::atomic<size_t> next = 0;
  {
    std::vector<std::jthread> threads;
    for (unsigned k = 0; k < jobs; ++k) {
      threads.emplace_back([&] {
        for (size_t i = next++; i < work.size(); i = next++) {
          const auto& [row, seed] = work[i];
          row->outcomes[seed] = Watch(row->scenario, seed).Run();
          fmt::print(stderr, "\r{} of {}", i + 1, work.size());
        }
      });
    }
  }
  fmt::print(stderr, "\n");
  PrintTable(rows);
  if (const Status saved = folder.empty() ? Status() : SaveTables(rows, folder); !saved.ok()) {
    fmt::print(stderr, "fault-table: {}\n", saved.ToString());
    return 2;
  }
  const bool all_right =
      std::all_of(rows.begin(), rows.end(), [](const Row& row) { return CountRight(row) == row.outcomes.size(); });
  return all_right ? 0 : 1;
}

}  // namespace
}  // namespace paceline::bench

int main(int argc, char** argv) { return paceline::bench::Main(argc, argv); }
