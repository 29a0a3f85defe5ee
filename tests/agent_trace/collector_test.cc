// The collector on rings that real processes write through the plugin.
#include "agent/trace/collector.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "analysis/root_cause.h"
#include "analysis/slowdown.h"
#include "analysis/tables_json.h"
#include "tests/collectives/job.h"
#include "tests/ring/ring_folder.h"

namespace paceline::agent {
namespace {

using namespace std::chrono_literals;
using analysis::Category;
using analysis::ProcessState;

class TracedJob : public testing::Test {
 protected:
  void Start(const std::string& schedule, const std::map<uint32_t, std::vector<std::string>>& of_rank = {},
             bool has_slow_link = false) {
    collectives::JobDescription job;
    job.ranks = 4;
    job.trace_folder = folder_.path();
    job.options = {"comm=dp=0,1,2,3", "schedule=" + schedule, "iterations=1000000", "slice-bytes=4096", "check=0"};
    if (schedule.find(":x:") != std::string::npos) job.options.push_back("comm=x=0,1,2,3");
    job.of_rank = of_rank;
    if (has_slow_link) job.slow_link = std::pair(1u, 2u);
    job_ = std::make_unique<collectives::Job>(job);
  }

  Collector& Collect(const CollectorOptions& given = {}) {
    CollectorOptions options = given;
    options.folders = [this, path = folder_.path()] {
      return std::vector<TraceFolder>{{path, ns_, ns_.empty() ? "" : "pod-1"}};
    };
    options.node = "node-a";
    collector_ = std::make_unique<Collector>(options, files_, clock_, *metrics_);
    return *collector_;
  }
  // Does not wait as long as it should on a node.
  Collector& CollectQuickly() {
    CollectorOptions options;
    options.history.stall = {1500ms, 10, 2500ms};
    options.scan_period = 200ms;
    return Collect(options);
  }

  // Samples until `condition` holds or 40 s are over; new triggers go to triggers_.
  bool SampleUntil(const std::function<bool()>& condition, Duration limit = 40s) {
    const Deadline deadline = Deadline::After(clock_, limit);
    do {
      for (TraceTrigger& trigger : collector_->Sample()) triggers_.push_back(std::move(trigger));
      if (condition()) return true;
    } while (clock_.SleepFor(100ms, {}) && !deadline.Expired(clock_));
    return false;
  }
  bool SampleUntilTrigger(TraceTriggerKind kind) {
    return SampleUntil([&] {
      for (const TraceTrigger& trigger : triggers_) {
        if (trigger.kind == kind) return true;
      }
      return false;
    });
  }
  // All four are there and have come some way.
  bool AwaitProgress(uint64_t operations = 5) {
    return SampleUntil([&] {
      const analysis::Tables tables = collector_->TablesOf("run-1");
      size_t ready = 0;
      for (const auto& process : tables.processes) {
        ready += !process.comms.empty() && process.comms[0].operations >= operations ? 1 : 0;
      }
      return ready == 4;
    });
  }

  // The verdict on what an operator would be sent.
  analysis::Verdict Verdict() {
    const std::string sent = DumpJson(analysis::WriteTables(collector_->TablesOf("run-1")));
    Result<analysis::Tables> tables = analysis::ParseTables(sent);
    EXPECT_TRUE(tables.ok()) << tables.status().ToString();
    analysis::Verdict verdict = analysis::Diagnose(*tables);
    text_ = DumpJsonPretty(analysis::WriteVerdict(verdict));
    return verdict;
  }
  static std::vector<int32_t> RanksOf(const analysis::Verdict& verdict) {
    std::vector<int32_t> ranks;
    for (const auto& culprit : verdict.culprits) ranks.push_back(culprit.world_rank);
    return ranks;
  }
  void ExpectVerdict(Category category, const std::vector<int32_t>& ranks) {
    const analysis::Verdict verdict = Verdict();
    EXPECT_EQ(verdict.category, category) << text_;
    EXPECT_EQ(RanksOf(verdict), ranks) << text_;
    EXPECT_GE(verdict.confidence, 0.5);
    for (const auto& culprit : verdict.culprits) EXPECT_EQ(culprit.node, "node-a");
  }

  ring::RingFolder folder_;
  std::string ns_;  // of the folder, when it is a pod's volume
  RealFileSystem files_;
  RealClock clock_;
  std::unique_ptr<MetricsRegistry> metrics_ = MetricsRegistry::Create();
  std::unique_ptr<collectives::Job> job_;
  std::unique_ptr<Collector> collector_;
  std::vector<TraceTrigger> triggers_;
  std::string text_;
};

constexpr const char* kTraining = "allreduce:dp:20000;compute:2000;sync";

TEST_F(TracedJob, IsCalledByItsNamespaceAndShowsItsStart) {
  ns_ = "team";
  const WallTime before = clock_.WallNow();
  CollectQuickly();
  Start("allreduce:dp:1000;sync");
  ASSERT_TRUE(SampleUntil([&] {
    const auto stages = collector_->Stages();
    return stages.count("pod-1") > 0 && stages.at("pod-1").first_step && collector_->Runs().size() == 1;
  }));
  EXPECT_EQ(collector_->Runs(), std::vector<std::string>{"team/run-1"});
  const TracedStages stages = collector_->Stages().at("pod-1");
  EXPECT_GE(*stages.communicator_ready, before);
  EXPECT_GE(*stages.first_step, *stages.communicator_ready);
  EXPECT_LE(*stages.first_step, clock_.WallNow());
  const std::vector<RunState> states = collector_->States();
  ASSERT_EQ(states.size(), 1u);
  EXPECT_EQ(states[0].run, "team/run-1");
  EXPECT_TRUE(states[0].open.empty());
}

TEST_F(TracedJob, KeepsAnAlertOpenForAsLongAsItHolds) {
  CollectQuickly();
  Start("allreduce:dp:1000;sync");
  ASSERT_TRUE(AwaitProgress());
  job_->Signal(1, SIGSTOP);
  const auto is_open = [&] {
    const std::vector<RunState> states = collector_->States();
    return states.size() == 1 && !states[0].open.empty();
  };
  ASSERT_TRUE(SampleUntil(is_open));
  EXPECT_EQ(collector_->States()[0].open[0].kind, TraceTriggerKind::kStall);
  job_->Signal(1, SIGCONT);
  EXPECT_TRUE(SampleUntil([&] { return !is_open(); }));
}

TEST_F(TracedJob, NamesAStoppedRankWithinTenSeconds) {
  Start(kTraining);
  Collect();
  ASSERT_TRUE(AwaitProgress());
  EXPECT_EQ(Verdict().category, Category::kNone) << text_;
  job_->Signal(2, SIGSTOP);
  const TimePoint stopped = clock_.Now();
  ASSERT_TRUE(SampleUntilTrigger(TraceTriggerKind::kStall));
  const Duration took = clock_.Now() - stopped;
  EXPECT_LE(took, 10s);
  RecordProperty("trigger_ms", static_cast<int>(took / 1ms));
  ExpectVerdict(Category::kHostStuck, {2});
  // It goes on, and so does the job.
  job_->Signal(2, SIGCONT);
  const uint64_t before = collector_->TablesOf("run-1").processes[0].comms[0].operations;
  ASSERT_TRUE(AwaitProgress(before + 5));
  EXPECT_EQ(Verdict().category, Category::kNone) << text_;
}

struct JobFault {
  const char* name;
  std::vector<std::string> options;
  uint32_t rank;
  Category category;
};

void PrintTo(const JobFault& fault, std::ostream* stream) { *stream << fault.name; }

class TracedFault : public TracedJob, public testing::WithParamInterface<JobFault> {};

TEST_P(TracedFault, IsNamed) {
  Start(kTraining, {{GetParam().rank, GetParam().options}});
  CollectQuickly();
  ASSERT_TRUE(SampleUntilTrigger(TraceTriggerKind::kStall));
  ExpectVerdict(GetParam().category, {static_cast<int32_t>(GetParam().rank)});
}

// Connections carry the data of one collective after another: short of some, the others take those of the next, and
// hang only when there is none.
INSTANTIATE_TEST_SUITE_P(Faults, TracedFault,
                         testing::Values(JobFault{"NeverLaunches", {"hang-at=9"}, 1, Category::kNotLaunched},
                                         JobFault{"InTheCall", {"hang-in-call-at=9"}, 3, Category::kHostStuck},
                                         JobFault{"KernelStuck", {"kernel-stuck-at=9"}, 0, Category::kGpuStuck},
                                         JobFault{"Mismatch", {"mismatch-at=9", "hang-at=10"}, 2, Category::kMismatch}),
                         [](const auto& info) { return info.param.name; });

TEST_F(TracedJob, NamesALinkThatCarriesNothing) {
  Start(kTraining, {}, true);
  CollectQuickly();
  ASSERT_TRUE(AwaitProgress());
  job_->link().SetRate(0);
  ASSERT_TRUE(SampleUntilTrigger(TraceTriggerKind::kStall));
  ExpectVerdict(Category::kNetwork, {1, 2});
}

TEST_F(TracedJob, NamesARankThatWasKilledAndRemovesItsRing) {
  Start(kTraining);
  CollectorOptions options;
  options.keep_ended = 3s;
  Collect(options);
  ASSERT_TRUE(AwaitProgress());
  const auto count_files = [&] {
    return std::distance(std::filesystem::directory_iterator(folder_.path()), std::filesystem::directory_iterator());
  };
  EXPECT_EQ(count_files(), 4);
  job_->Signal(1, SIGKILL);
  const TimePoint killed = clock_.Now();
  job_->WaitFor(1);
  ASSERT_TRUE(SampleUntilTrigger(TraceTriggerKind::kProcessLost));
  EXPECT_LE(clock_.Now() - killed, 10s);
  ExpectVerdict(Category::kProcessLost, {1});
  ASSERT_TRUE(SampleUntil([&] { return count_files() == 3; }));
  EXPECT_EQ(collector_->TablesOf("run-1").processes.size(), 3u);
}

TEST_F(TracedJob, NamesCommunicatorsThatWaitForEachOther) {
  Start("allreduce:dp:50000;allreduce:x:50000;sync", {{1, {"swap-at=8"}}});
  CollectQuickly();
  ASSERT_TRUE(SampleUntilTrigger(TraceTriggerKind::kStall));
  EXPECT_EQ(Verdict().category, Category::kDeadlock) << text_;
}

TEST_F(TracedJob, IsSilentOnAHealthyRunWithPauses) {
  Start("allreduce:dp:20000;reducescatter:dp:3000;allgather:dp:3000;exchange:dp:500;compute:400000;sync");
  CollectQuickly();
  ASSERT_TRUE(AwaitProgress(1));
  const Deadline end = Deadline::After(clock_, 6s);
  ASSERT_TRUE(SampleUntil([&] {
    EXPECT_EQ(Verdict().category, Category::kNone) << text_;
    return end.Expired(clock_);
  }));
  EXPECT_TRUE(triggers_.empty());
}

TEST_F(TracedJob, GivesTablesRecordsAndMetrics) {
  Start("allreduce:dp:20000;exchange:dp:500;sync");
  Collect();
  const WallTime start = clock_.WallNow();
  ASSERT_TRUE(SampleUntil([&] {
    const Result<Json> records = collector_->RecordsOf("run-1", start);
    return records.ok() && (*records)["operations"].size() > 40 && !(*records)["links"].empty();
  }));
  EXPECT_EQ(collector_->Runs(), std::vector<std::string>{"run-1"});
  EXPECT_EQ(collector_->RecordsOf("other", start).status().code(), StatusCode::kNotFound);
  const Json records = *collector_->RecordsOf("run-1", start);
  for (const Json& operation : records["operations"]) {
    EXPECT_EQ(operation["commName"], "dp");
    EXPECT_GE(operation["start"].get<int64_t>(), start.time_since_epoch().count() - 1'000'000'000);
    EXPECT_GT(operation["duration"].get<int64_t>(), 0);
    EXPECT_LT(operation["duration"].get<int64_t>(), 30'000'000'000);
    EXPECT_EQ(operation["bytes"], operation["func"] == "AllReduce" ? 80000 : 2000);
  }
  const analysis::Tables tables = collector_->TablesOf("");
  ASSERT_EQ(tables.processes.size(), 4u);
  for (const auto& process : tables.processes) {
    EXPECT_EQ(process.state, ProcessState::kRunning);
    EXPECT_EQ(process.pid, job_->pid(static_cast<uint32_t>(process.world_rank)));
    EXPECT_EQ(process.abi, 6u);
    EXPECT_EQ(process.drops, 0u);
  }
  const std::string page = metrics_->Render();
  EXPECT_NE(page.find("paceline_trace_processes{run=\"run-1\",state=\"running\"} 4"), std::string::npos) << page;
  EXPECT_NE(page.find("paceline_trace_operations_total{func=\"AllReduce\",run=\"run-1\"}"), std::string::npos) << page;
}

TEST_F(TracedJob, LeavesForeignFilesAlone) {
  std::filesystem::create_directories(folder_.path() + "/a/b/c/d");
  std::ofstream(folder_.path() + "/nccl-1-2-3.ring") << "not a ring";
  std::ofstream(folder_.path() + "/notes.txt") << "mine";
  ::mkfifo((folder_.path() + "/a/nccl-4-5-6.ring").c_str(), 0600);
  std::filesystem::create_symlink("/etc/passwd", folder_.path() + "/nccl-7-8-9.ring");
  std::filesystem::create_directory_symlink("..", folder_.path() + "/a/loop");
  Collect();
  for (int i = 0; i < 3; i++) EXPECT_TRUE(collector_->Sample().empty());
  EXPECT_TRUE(collector_->TablesOf("").processes.empty());
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/nccl-1-2-3.ring"));
}

TEST_F(TracedJob, TellsWhatASlowRankCosts) {
  // 30 ms of work, of rank 2 42 ms: 1.4 times.
  Start("compute:30000;allreduce:dp:20000;sync", {{2, {"extra-compute-us=12000"}}});
  CollectorOptions options;
  options.history.pace.warm_up = 0s;
  Collect(options);
  const auto paces = [&] { return collector_->PacesOf("run-1", {}); };
  const auto has_windows = [&] {
    const auto ranks = paces();
    if (!ranks.ok() || ranks->size() < 4) return false;
    return std::all_of(ranks->begin(), ranks->end(), [](const auto& rank) { return rank.windows.size() >= 3; });
  };
  ASSERT_TRUE(SampleUntil(has_windows));
  const Result<std::vector<analysis::RankPace>> ranks = paces();
  analysis::SlowdownOptions slowdown;
  slowdown.window = 5s;
  slowdown.windows = 2;
  slowdown.lag = 5s;
  const WallTime now = clock_.WallNow();
  const auto told = analysis::SlowdownOf(*ranks, analysis::SharesOf(*ranks, 4, now, {}, slowdown), slowdown);
  ASSERT_TRUE(told.slowdown.has_value()) << told.why_not;
  // The length of a step by the operations of a window, against what it would be 12 ms earlier.
  double operations = 0;
  for (const auto& window : (*ranks)[2].windows) operations += static_cast<double>(window.operations);
  const double step = 5.0 * static_cast<double>((*ranks)[2].windows.size()) / operations;
  EXPECT_NEAR(*told.slowdown, step / (step - 0.012), 0.05);
  EXPECT_EQ(told.workers[0].world_rank, 2);
  EXPECT_NEAR(told.workers[0].late_seconds, 0.012, 0.003);
  EXPECT_EQ(collector_->PacesOf("other", {}).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace paceline::agent
