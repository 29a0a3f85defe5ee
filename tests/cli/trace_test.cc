#include <gtest/gtest.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "analysis/tables_json.h"
#include "cli/trace_commands.h"

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
 protected:
  TraceCommand() {
    std::string pattern = (std::filesystem::temp_directory_path() / "paceline-trace.XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~TraceCommand() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const analysis::Tables& tables) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << DumpJson(analysis::WriteTables(tables));
    return path;
  }

  int Run(std::vector<std::string> arguments) {
    CLI::App app;
    std::string output = "json";
    const auto trace = TraceCommands::AddTo(app, &output);
    arguments.insert(arguments.begin(), {"trace", "diagnose"});
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

}  // namespace
}  // namespace paceline::cli
