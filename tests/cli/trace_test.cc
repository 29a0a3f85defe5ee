#include <gtest/gtest.h>
#include <cstdlib>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "analysis/tables_json.h"
#include "cli/trace_commands.h"
#include "cli/trace_perfetto.h"
#include "cli/trace_top.h"

namespace paceline::cli {
namespace {

using analysis::Category;

TEST(TraceText, ShowsAVerdict) {
  analysis::Verdict verdict;
  verdict.category = Category::kNetwork;
  verdict.cause = "the network does not carry on what is sent from rank 1 to rank 2";
  verdict.confidence = 0.75;
  verdict.culprits = {{1, "node-a", "pod-1"}, {2, "node-b", "pod-2"}};
  verdict.communicator = "dp";
  verdict.edge = analysis::VerdictEdge{1, 2, 3};
  verdict.evidence = {{"steps", 6, "", {}}, {"no change for", 4.25, "s", {}}};
  verdict.not_visible = {"hops within a node"};
  EXPECT_EQ(RenderVerdict(verdict),
            "Network: the network does not carry on what is sent from rank 1 to rank 2\n"
            "confidence    75 %\n"
            "rank          1 on node-a (pod-1)\n"
            "rank          2 on node-b (pod-2)\n"
            "communicator  dp\n"
            "edge          rank 1 to rank 2, channel 3\n"
            "to do         look at the counters of the named node's network cards and of its switch port (errors, "
            "discards, link speed)\n"
            "evidence\n"
            "  steps: 6\n"
            "  no change for: 4.25 s\n"
            "not visible\n"
            "  hops within a node\n");
}

TEST(TraceText, SaysInOneLineThatNothingIsWrong) {
  analysis::Verdict verdict;
  verdict.category = Category::kNone;
  verdict.cause = "nothing stands still that should go on";
  EXPECT_EQ(RenderVerdict(verdict), "None: nothing stands still that should go on\n");
}

class TraceCommand : public testing::Test {
 public:
  ~TraceCommand() override { std::filesystem::remove_all(folder_); }

 protected:
  TraceCommand() {
    std::string pattern = (std::filesystem::temp_directory_path() / "paceline-trace.XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }

  std::string Write(const std::string& name, const analysis::Tables& tables) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << DumpJson(analysis::WriteTables(tables));
    return path;
  }

  int Run(std::vector<std::string> arguments) { return Run("diagnose", std::move(arguments)); }

  int Run(const std::string& command, std::vector<std::string> arguments) {
    CLI::App app;
    std::string output = "json";
    const SessionOptions session;
    const auto trace = TraceCommands::AddTo(app, &output, &session);
    arguments.insert(arguments.begin(), {"trace", command});
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes a vector
    app.parse(arguments);
    EXPECT_TRUE(trace->is_given());
    testing::internal::CaptureStdout();
    const int code = trace->Run(OutputFormat::kJson, RealClock());
    printed_ = testing::internal::GetCapturedStdout();
    return code;
  }

  std::string folder_;
  std::string printed_;
};

analysis::Tables OneProcess(int32_t rank, analysis::ProcessState state) {
  analysis::Tables tables;
  analysis::ProcessView process;
  process.run = "run-1";
  process.world_rank = rank;
  process.state = state;
  tables.processes.push_back(process);
  return tables;
}

TEST_F(TraceCommand, TakesTheTablesOfSeveralNodesTogether) {
  const std::string one = Write("a.json", OneProcess(0, analysis::ProcessState::kRunning));
  const std::string two = Write("b.json", OneProcess(1, analysis::ProcessState::kStopped));
  EXPECT_EQ(Run({one}), 0);
  EXPECT_EQ(Run({one, two, "--save", folder_ + "/all.json"}), 3);
  const Result<Json> verdict = ParseJson(printed_);
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(*JsonString(*verdict, "category"), "HostStuck");
  EXPECT_EQ(*JsonInt(*verdict, "culprits.0.rank"), 1);
  EXPECT_EQ(Run({folder_ + "/all.json"}), 3);
  EXPECT_EQ(Run({folder_ + "/all.json", "--run", "other"}), 3);
  EXPECT_EQ(*JsonString(*ParseJson(printed_), "category"), "Unknown");
}

TEST_F(TraceCommand, FailsOnWhatItCannotRead) {
  EXPECT_EQ(Run({}), 1);
  EXPECT_EQ(Run({folder_ + "/none.json"}), 1);
  EXPECT_EQ(Run({"--dir", folder_}), 1);
  std::ofstream(folder_ + "/bad.json") << "{\"version\": 1, \"processes\": 3}";
  EXPECT_EQ(Run({folder_ + "/bad.json"}), 1);
}

TEST_F(TraceCommand, DumpsWhatDiagnoseReads) {
  const std::string folder = folder_ + "/rings";
  std::filesystem::create_directory(folder);
  EXPECT_EQ(Run("dump", {"--dir", folder}), 1) << "no process is traced there";
  EXPECT_EQ(Run("dump", {"run-1", "--dir", folder}), 1) << "two sources";
  EXPECT_EQ(Run("dump", {}), 1) << "none";
}

analysis::Tables FourRanks(uint64_t operations, uint64_t of_rank_2) {
  analysis::Tables tables;
  for (int32_t rank = 0; rank < 4; ++rank) {
    analysis::ProcessView process;
    process.world_rank = rank;
    process.node = rank < 2 ? "n1" : "n2";
    process.state =
        rank == 2 && of_rank_2 < operations ? analysis::ProcessState::kStopped : analysis::ProcessState::kRunning;
    analysis::CommView comm;
    comm.id = 0x5ace;
    comm.name = "dp";
    comm.rank = rank;
    comm.ranks = 5;
    comm.operations = rank == 2 ? of_rank_2 : operations;
    process.comms = {comm};
    if (comm.operations > of_rank_2) {
      analysis::CallView call;
      call.kind = analysis::CallKind::kColl;
      call.comm = 0;
      call.func = "AllReduce";
      call.open_proxies = 1;
      call.still = std::chrono::milliseconds(2500);
      process.calls = {call};
    }
    tables.processes.push_back(process);
  }
  return tables;
}

TEST(TraceTop, ShowsWhoIsBehindAndHowFastItGoes) {
  const TimePoint start{};
  TraceLook before{FourRanks(100, 100), start};
  TraceLook now{FourRanks(121, 120), start + std::chrono::seconds(2)};
  now.tables.missing = {"n3: no answer within 5 s"};
  EXPECT_EQ(RenderTop(now, &before),
            "COMMUNICATOR  RANKS   OPERATIONS  PER SECOND  NOW             STILL   BEHIND\n"
            "dp            4 of 5  120 to 121  10.0        AllReduce in 3  2.50 s  rank 2 on n2 (Stopped)\n"
            "\n"
            "4 processes on 2 nodes, 3 Running, 1 Stopped\n"
            "  rank 2 on n2 (Stopped)\n"
            "no answer from n3: no answer within 5 s\n");
  EXPECT_EQ(RenderTop(before, nullptr),
            "COMMUNICATOR  RANKS   OPERATIONS  PER SECOND  NOW  STILL  BEHIND\n"
            "dp            4 of 5  100         -           -    -      -\n"
            "\n"
            "4 processes on 2 nodes, 4 Running\n");
  const Json value = TopValue(now, &before);
  EXPECT_EQ(*JsonDouble(value, "communicators.0.operationsPerSecond"), 10.0);
  EXPECT_EQ(*JsonInt(value, "communicators.0.behind.rank"), 2);
  EXPECT_EQ(*JsonInt(value, "processes.Running"), 3);
  EXPECT_EQ(*JsonInt(value, "notRunning.0.rank"), 2);
  EXPECT_EQ(*JsonString(value, "missing.0"), "n3: no answer within 5 s");
}

TEST(TraceTop, ARestartedRunHasNoNegativeRate) {
  const TimePoint start{};
  const TraceLook before{FourRanks(100, 100), start}, now{FourRanks(3, 3), start + std::chrono::seconds(1)};
  EXPECT_EQ(TopValue(now, &before).at("communicators").at(0).count("operationsPerSecond"), 0u);
}

TEST(TracePerfetto, PutsEachCommunicatorOfARankOnATrackOfItsOwn) {
  const std::string one = R"({"version": 1, "operations": [
      {"comm": "5ace", "commName": "dp", "worldRank": 3, "index": 7, "func": "AllReduce", "bytes": 4096,
       "start": 1767323040000002000, "duration": 1500},
      {"comm": "77", "commName": "", "worldRank": 3, "index": 1, "func": "Send", "bytes": 8,
       "start": 1767323040000001000, "duration": 9000}],
      "triggers": [{"kind": "Stall", "at": 1767323040000011000, "worldRank": 3, "detail": "rank 3"}]})";
  const std::string two = R"({"operations": [{"func": "AllReduce", "worldRank": 1}, 5, {"start": -4, "duration": 1,
      "worldRank": 0}], "triggers": {}})";
  const Result<Json> trace = OperationsAsPerfetto("ns/run", {{"n1", one}, {"n2", two}});
  ASSERT_TRUE(trace.ok());
  std::vector<std::string> events;
  for (const Json& event : trace->at("traceEvents")) {
    std::string text = event.at("ph").get<std::string>() + " " + event.at("name").get<std::string>();
    text += " " + std::to_string(event.at("pid").get<int>()) + "/" + std::to_string(event.at("tid").get<int>());
    if (event.count("ts") > 0) text += " at " + std::to_string(event.at("ts").get<double>()).substr(0, 4);
    if (event.at("ph") == "M") text += " " + event.at("args").at("name").get<std::string>();
    events.push_back(text);
  }
  EXPECT_EQ(events, (std::vector<std::string>{"M process_name 1/0 n1", "M thread_name 1/1 rank 3 dp",
                                              "X AllReduce 1/1 at 1.00", "M thread_name 1/2 rank 3 77",
                                              "X Send 1/2 at 0.00", "i Stall 1/0 at 10.0", "M process_name 2/0 n2"}));
  EXPECT_EQ(OperationsAsPerfetto("ns/run", {{"n1", "{"}}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace paceline::cli
