#include "cli/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/run_perfetto.h"

namespace paceline::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

const WallTime kFirstStart = WallTime(1767323045s);

api::TrainingRun Start(int64_t generation, double image_seconds, const char* job = "train") {
  api::TrainingRun run;
  run.metadata.name = std::string(job) + "-" + std::to_string(generation);
  run.metadata.ns = "demo";
  run.metadata.creation_timestamp = kFirstStart + std::chrono::seconds(generation * 60);
  run.spec.job = {"paceline.dev/v1alpha1", "TrainingJob", job, std::string("uid-") + job};
  run.spec.generation = generation;
  run.spec.workers = 4;
  run.status.queued_at = run.metadata.creation_timestamp;
  const Duration image = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(image_seconds));
  run.status.first_step_at = *run.status.queued_at + image + 5s;
  run.status.stages = {{api::StageName::kImage, {}, {}, 0, image_seconds / 2, image_seconds, 4, "p", "n3", {}},
                       {api::StageName::kFirstStep, {}, {}, 5, 5, 5, 4, "p", "n1", {}}};
  run.status.startup = api::StartupCost{generation > 0 ? api::StartKind::kHotRestart : api::StartKind::kFull, 80, 32,
                                        (image_seconds + 5) * 32};
  return run;
}

TEST(RunsToCompare, OneJobMeansItsStartsAndNamesMeanRuns) {
  const std::vector<api::TrainingRun> runs = {Start(1, 0), Start(0, 40), Start(0, 9, "other")};
  const auto starts = RunsToCompare(runs, {"train"});
  ASSERT_TRUE(starts.ok());
  ASSERT_EQ(starts->size(), 2u);
  EXPECT_EQ((*starts)[0].metadata.name, "train-0") << "oldest first";
  const auto two = RunsToCompare(runs, {"train-0", "other"});
  ASSERT_TRUE(two.ok());
  EXPECT_EQ((*two)[1].metadata.name, "other-0");
  EXPECT_THAT(RunsToCompare(runs, {"other"}).status().message(), HasSubstr("one start so far"));
  EXPECT_EQ(RunsToCompare(runs, {"train-0", "nothing"}).status().code(), StatusCode::kNotFound);
}

TEST(CompareRuns, SetsAHotRestartAgainstTheFullStart) {
  const std::string text = CompareRuns({Start(0, 40), Start(1, 0)});
  EXPECT_THAT(text, HasSubstr("train-0  0      Full        4        45.0 s   40.0 s"));
  EXPECT_THAT(text, HasSubstr("train-1  1      HotRestart  4        5.00 s   0.00 s"));
  EXPECT_THAT(text, HasSubstr("0.40")) << "GPU-hours of the full start: 45 s of 32 GPUs";
  EXPECT_THAT(text, HasSubstr("2.0x n3")) << "slowest against median";
  EXPECT_THAT(text, HasSubstr("train-1 (HotRestart) started in 5.00 s against 45.0 s of train-0: -40.0 s (-89 %)"));
  EXPECT_THAT(text, HasSubstr("* Image: -40.0 s"));
  EXPECT_THAT(text, Not(HasSubstr("* FirstStep"))) << "it did not change";
}

TEST(CompareRuns, SaysSoWhenThereIsNoTimeToCompare) {
  api::TrainingRun open = Start(1, 3);
  open.status.first_step_at.reset();
  EXPECT_THAT(CompareRuns({Start(0, 4), open}), HasSubstr("no startup times to compare"));
  EXPECT_FALSE(CompareRunsValue({open})[0].contains("startupSeconds"));
}

TEST(CompareRuns, GivesProgramsTheSameNumbers) {
  const nlohmann::json value = CompareRunsValue({Start(0, 40)});
  EXPECT_EQ(value[0]["startKind"], "Full");
  EXPECT_EQ(value[0]["startupSeconds"], 45.0);
  EXPECT_EQ(value[0]["gpuSeconds"], 45.0 * 32);
  EXPECT_EQ(value[0]["stages"][0]["maxToMedian"], 2.0);
}

TEST(StartupAsPerfetto, HasAProcessPerNodeAndASlicePerStage) {
  api::TrainingRun run = Start(0, 2);
  const WallTime at = *run.status.queued_at;
  run.status.workers = {
      {0, "train-0", "n1", {{api::StageName::kImage, at, at + 2s}, {api::StageName::kFirstStep, at + 2s, {}}}},
      {1, "train-1", "n2", {{api::StageName::kImage, at, at + 1s}}}};
  const nlohmann::json trace = nlohmann::json::parse(StartupAsPerfetto(run, at + 9s));
  int slices = 0, processes = 0;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    processes += event["name"] == "process_name" ? 1 : 0;
    if (event["ph"] != "X") continue;
    ++slices;
    if (event["name"] == "FirstStep") {
      EXPECT_EQ(event["ts"], 2'000'000);
      EXPECT_EQ(event["dur"], 7'000'000) << "to now";
      EXPECT_EQ(event["args"]["open"], true);
    }
  }
  EXPECT_EQ(slices, 3);
  EXPECT_EQ(processes, 2);
}

}  // namespace
}  // namespace paceline::cli
