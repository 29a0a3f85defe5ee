// "What if" questions against jobs played the other way: by the plain recursion of the synthetic jobs.
#include "analysis/whatif/scenarios.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/whatif/near.h"
#include "tests/whatif/synthetic_trace.h"

namespace paceline::analysis {
namespace {

using testing::HasSubstr;

Result<std::vector<Scenario>> Ask(const StepTrace& trace, const ScenarioRequest& request) {
  ASSIGN_OR_RETURN(const WhatIfModel model, BuildWhatIfModel(trace));
  ASSIGN_OR_RETURN(const WhatIfResult result, AnalyzeModel(trace, model, {}));
  return PlayScenarios(trace, model, result, request, 2);
}

Scenario AskOne(const StepTrace& trace, const ScenarioRequest& request) {
  auto scenarios = Ask(trace, request);
  EXPECT_TRUE(scenarios.ok()) << scenarios.status().message();
  if (!scenarios.ok() || scenarios->size() != 1) return {};
  return scenarios->front();
}

// One stage, two ranks, one micro-batch: forward 1 and 3 s, backward 2 s each, all the rest no time. T = 5, T_ideal
// = 4.
StepTrace TwoUnevenRanks() {
  SyntheticJob job;
  job.pp = 1;
  job.micro_batches = 1;
  job.steps = 1;
  job.p2p = job.gather = job.scatter = job.tail = 0;
  job.scale = [](OpType type, int dp_rank, int, int, int) {
    return type == OpType::kForwardCompute && dp_rank == 1 ? 3 : 1;
  };
  return Play(job).trace;
}

TEST(Scenarios, NoneAskedNoneGiven) {
  const auto scenarios = Ask(TwoUnevenRanks(), {});
  ASSERT_TRUE(scenarios.ok());
  EXPECT_TRUE(scenarios->empty());
}

TEST(Scenarios, IdealWorkerByHand) {
  const Scenario scenario = AskOne(TwoUnevenRanks(), {.ideal_workers = {{1, 0}}});
  EXPECT_EQ(scenario.kind, "ideal-workers");
  ExpectClose(scenario.mean_seconds, 4);  // max(1 + 2, 2 + 2)
  ExpectClose(scenario.speedup, 1.25);
  ExpectClose(scenario.slowdown, 1);
}

TEST(Scenarios, WithoutTheSlowRankStepsAreShorterButDoLess) {
  const Scenario scenario = AskOne(TwoUnevenRanks(), {.removed_ranks = {1}});
  ExpectClose(scenario.mean_seconds, 3);
  ExpectClose(scenario.speedup, 5.0 / 3 / 2);
  EXPECT_THAT(scenario.text, HasSubstr("1 of 2 data-parallel ranks leave"));
}

// A worker of a tensor-parallel group of 4 has ranks 4 to 7: one of them is enough.
TEST(Scenarios, RanksOfATensorParallelGroupBelongToItsWorker) {
  StepTrace trace = TwoUnevenRanks();
  trace.shape.tp_size = 4;
  trace.shape.world_size = 8;
  for (int32_t& rank : trace.rank) rank *= 4;
  ExpectClose(AskOne(trace, {.removed_ranks = {6}}).mean_seconds, 3);
  ExpectClose(AskOne(trace, {.removed_ranks = {3}}).mean_seconds, 5);
}

TEST(Scenarios, MovedLayersAreThoseOfAJobThatWasSplitSo) {
  SyntheticJob job;
  job.dp = 1;
  job.pp = 2;
  job.scale = [](OpType, int, int stage, int, int) { return stage == 1 ? 2 : 1; };
  // Four layers each; the last stage takes as long again for the loss, which stays.
  const Scenario scenario = AskOne(Play(job).trace, {.moves = {{1, 0, 2}}, .layers = {4, 4}});
  SyntheticJob moved = job;
  moved.scale = [](OpType, int, int, int, int) { return 1.5; };
  ExpectClose(scenario.mean_seconds, Play(moved).step_seconds[0]);
  EXPECT_GT(scenario.speedup, 1.1);
  EXPECT_THAT(scenario.text, HasSubstr("6, 2 layers instead of 4, 4"));
}

TEST(Scenarios, PlannedCollectionsTakeThePausesAway) {
  SyntheticJob job;
  job.steps = 8;
  const double even = Play(job).step_seconds[0];
  job.scale = [](OpType type, int dp_rank, int stage, int step, int seq) {
    return type == OpType::kForwardCompute && step == dp_rank * 4 + stage && seq == 3 ? 1.8 : 1;
  };
  const Scenario scenario = AskOne(Play(job).trace, {.collected_every = 100});
  ExpectClose(scenario.mean_seconds, even + 0.8 / 100);
  EXPECT_THAT(scenario.text, HasSubstr("8 pauses gone, all ranks collect together each 100 steps for 800 ms"));
}

TEST(Scenarios, WhatCannotBeIsRefusedByName) {
  struct Case {
    ScenarioRequest request;
    const char* message;
  };
  const Case cases[] = {
      {{.ideal_workers = {{2, 0}}}, "no worker dp 2 stage 0"},
      {{.ideal_workers = {{0, 1}}}, "no worker dp 0 stage 1"},
      {{.removed_ranks = {0, 1}}, "no data-parallel rank is left"},
      {{.removed_ranks = {2}}, "ranks 2 to 2 with a world of 2"},
      {{.moves = {{0, 1, 1}}, .layers = {4}}, "no stage 1"},
      {{.moves = {{0, 0, 5}}, .layers = {4, 4}}, "layers of 2 stages are given, the job has 1"},
      {{.moves = {{0, 0, 0}}, .layers = {4}}, "0 layers cannot be moved"},
      {{.moves = {{0, 0, 1}}, .layers = {0}}, "a stage has no layers"},
      {{.collected_every = 10}, "no forward-only pauses"},
      {{.collected_every = 0}, "a collection each 0 steps"},
  };
  for (const Case& c : cases) {
    const auto scenarios = Ask(TwoUnevenRanks(), c.request);
    EXPECT_EQ(scenarios.status().code(), StatusCode::kInvalidArgument) << c.message;
    EXPECT_THAT(scenarios.status().message(), HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace paceline::analysis
