// The analysis on made-up jobs, with every shape that the public traces lack: model chunks, overlapped data
// parallelism, one rank, one stage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/whatif/analysis.h"
#include "analysis/whatif/hints.h"
#include "tests/whatif/near.h"
#include "tests/whatif/synthetic_trace.h"

namespace paceline::analysis {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

WhatIfResult Analyze(const StepTrace& trace) {
  auto result = AnalyzeWhatIf(trace, {.threads = 2});
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *std::move(result) : WhatIfResult{};
}

WhatIfModel ModelOf(const StepTrace& trace) {
  auto model = BuildWhatIfModel(trace);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? *std::move(model) : WhatIfModel{};
}

struct Shape {
  const char* name;
  int dp, pp, vpp;
  bool overlaps_dp;
};

class EveryShape : public testing::TestWithParam<Shape> {
 protected:
  SyntheticJob Job() const {
    SyntheticJob job;
    job.dp = GetParam().dp;
    job.pp = GetParam().pp;
    job.vpp = GetParam().vpp;
    job.overlaps_dp = GetParam().overlaps_dp;
    return job;
  }
  // Made ideal, a no-op at the model's ends takes as long as the median transfer, which with model chunks puts a few of
  // them on the critical path.
  double IdealTolerance() const { return GetParam().vpp > 1 ? 1e-3 : kNear; }
};

TEST_P(EveryShape, EvenJobHasNoSlowdown) {
  const PlayedJob played = Play(Job());
  const WhatIfResult result = Analyze(played.trace);
  ASSERT_EQ(result.steps.size(), 2u);
  ExpectClose(result.simulated[0], played.step_seconds[0]);
  ExpectClose(result.measured[0], played.step_seconds[0]);
  ExpectClose(result.launch_slowdown, 1);
  ExpectClose(result.slowdown, 1, IdealTolerance());
  EXPECT_FALSE(result.by_dp_rank);
  EXPECT_TRUE(FindCauses(ModelOf(played.trace), result).empty());
}

TEST_P(EveryShape, SlowWorkerIsFoundAndItsCostIsThatOfAnotherWayToReckon) {
  SyntheticJob job = Job();
  const int slow_rank = job.dp - 1, slow_stage = job.pp / 2;
  job.scale = [&](OpType, int dp_rank, int stage, int, int) {
    return dp_rank == slow_rank && stage == slow_stage ? 2 : 1;
  };
  const PlayedJob played = Play(job);
  const WhatIfResult result = Analyze(played.trace);
  ExpectClose(result.simulated[0], played.step_seconds[0]);
  // Ideal: the mean over all workers.
  SyntheticJob ideal = Job();
  const double workers = job.dp * job.pp;
  ideal.scale = [&](OpType, int, int, int, int) { return (workers + 1) / workers; };
  ExpectClose(result.ideal, Play(ideal).step_seconds[0], IdealTolerance());
  ExpectClose(result.slowdown, played.step_seconds[0] / Play(ideal).step_seconds[0], IdealTolerance());
  if (job.dp * job.pp == 1) return;  // nobody else to be slower than
  ASSERT_TRUE(result.by_dp_rank);
  const auto slowest = [](const Decomposition& parts) {
    return static_cast<int>(std::max_element(parts.ratio.begin(), parts.ratio.end()) - parts.ratio.begin());
  };
  EXPECT_EQ(slowest(*result.by_dp_rank), slow_rank);
  EXPECT_EQ(slowest(*result.by_stage), slow_stage);
  EXPECT_THAT(result.slowest_workers, ElementsAre(Pair(slow_rank, slow_stage)));
  ASSERT_TRUE(result.by_slowest_workers);
  EXPECT_GT(result.by_slowest_workers->removed, 0.9);
  // Only its rank as measured, the others at the mean: again by the other way.
  SyntheticJob only = Job();
  only.scale = [&](OpType, int dp_rank, int stage, int, int) {
    return dp_rank != slow_rank ? (workers + 1) / workers : stage == slow_stage ? 2 : 1;
  };
  ExpectClose(result.by_dp_rank->ratio[static_cast<size_t>(slow_rank)] * result.ideal, Play(only).step_seconds[0],
              IdealTolerance());
}

INSTANTIATE_TEST_SUITE_P(, EveryShape,
                         testing::Values(Shape{"Plain", 2, 4, 1, false}, Shape{"OneRank", 1, 4, 1, false},
                                         Shape{"OneStage", 3, 1, 1, false}, Shape{"ModelChunks", 2, 4, 2, false},
                                         Shape{"Overlapped", 2, 4, 1, true},
                                         Shape{"ModelChunksOverlapped", 3, 2, 3, true},
                                         Shape{"ChunksOnOneRank", 1, 2, 2, false}),
                         [](const auto& info) { return info.param.name; });

// By hand: one stage, two ranks, one micro-batch. Forward 1 and 3 s, backward 2 s each. All the rest takes no time.
// T = 3 + 2; ideal forward (1 + 3) / 2; T_ideal = 2 + 2; S = 5 / 4.
TEST(WhatIf, TwoRanksByHand) {
  SyntheticJob job;
  job.pp = 1;
  job.micro_batches = 1;
  job.steps = 1;
  job.p2p = job.gather = job.scatter = job.tail = 0;
  job.scale = [](OpType type, int dp_rank, int, int, int) {
    return type == OpType::kForwardCompute && dp_rank == 1 ? 3 : 1;
  };
  const WhatIfResult result = Analyze(Play(job).trace);
  ExpectClose(result.simulated[0], 5);
  ExpectClose(result.ideal, 4);
  ExpectClose(result.slowdown, 1.25);
  ExpectClose(result.waste(), 0.2);
  ASSERT_TRUE(result.by_dp_rank);
  ExpectClose(result.by_dp_rank->ratio[0], 1);     // max(1 + 2, 2 + 2) / 4: the fast one waits for the ideal one
  ExpectClose(result.by_dp_rank->ratio[1], 1.25);  // 5 / 4
  ASSERT_TRUE(result.by_slowest_workers);
  ExpectClose(result.by_slowest_workers->removed, 1);  // with rank 1 ideal: max(1 + 2, 2 + 2) = 4
}

TEST(WhatIf, NamesOfRanksDoNotMatter) {
  SyntheticJob job;
  job.dp = 3;
  job.scale = [](OpType, int dp_rank, int stage, int, int seq) {
    return 1 + 0.1 * dp_rank + 0.05 * stage + 0.01 * seq;
  };
  SyntheticJob turned = job;
  turned.scale = [&](OpType type, int dp_rank, int stage, int step, int seq) {
    return job.scale(type, (dp_rank + 1) % 3, stage, step, seq);
  };
  const WhatIfResult a = Analyze(Play(job).trace), b = Analyze(Play(turned).trace);
  ExpectClose(b.slowdown, a.slowdown);
  ASSERT_TRUE(a.by_dp_rank && b.by_dp_rank);
  for (size_t rank = 0; rank < 3; rank++) ExpectClose(b.by_dp_rank->ratio[rank], a.by_dp_rank->ratio[(rank + 1) % 3]);
}

TEST(WhatIf, ThreadsDoNotMatter) {
  SyntheticJob job;
  job.steps = 5;
  job.scale = [](OpType, int dp_rank, int stage, int step, int) { return 1 + 0.3 * dp_rank + 0.05 * stage * step; };
  const StepTrace trace = Play(job).trace;
  const auto one = AnalyzeWhatIf(trace, {.threads = 1}), four = AnalyzeWhatIf(trace, {.threads = 4});
  ASSERT_TRUE(one.ok() && four.ok());
  EXPECT_EQ(one->simulated, four->simulated);
  EXPECT_EQ(one->by_dp_rank->per_step, four->by_dp_rank->per_step);
}

void RemoveRow(StepTrace& trace, size_t row) {
  const auto at = static_cast<std::ptrdiff_t>(row);
  trace.dp_rank.erase(trace.dp_rank.begin() + at);
  trace.stage.erase(trace.stage.begin() + at);
  trace.rank.erase(trace.rank.begin() + at);
  trace.step.erase(trace.step.begin() + at);
  trace.type.erase(trace.type.begin() + at);
  trace.start.erase(trace.start.begin() + at);
  trace.duration.erase(trace.duration.begin() + at);
  trace.seq.erase(trace.seq.begin() + at);
  trace.mc.erase(trace.mc.begin() + at);
  trace.gmc.erase(trace.gmc.begin() + at);
}

TEST(WhatIf, StepThatWasCutOffIsLeftOutAndNamed) {
  SyntheticJob job;
  job.steps = 3;
  StepTrace trace = Play(job).trace;
  const size_t row = static_cast<size_t>(std::find(trace.step.begin(), trace.step.end(), 11) - trace.step.begin());
  RemoveRow(trace, row);
  const WhatIfResult result = Analyze(trace);
  EXPECT_THAT(result.steps, ElementsAre(10, 12));
  EXPECT_THAT(result.left_out_steps, ElementsAre(11));
}

TEST(WhatIf, StepsCanBeChosen) {
  SyntheticJob job;
  job.steps = 3;
  const StepTrace trace = Play(job).trace;
  const auto chosen = KeepSteps(trace, {99, 12});
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen->rows(), trace.rows() / 3);
  EXPECT_THAT(Analyze(*chosen).steps, ElementsAre(12));
  EXPECT_EQ(KeepSteps(trace, {})->rows(), trace.rows());
  EXPECT_EQ(KeepSteps(trace, {99}).status().code(), StatusCode::kInvalidArgument);
}

TEST(WhatIf, TraceThatDoesNotHangTogetherSaysWhere) {
  SyntheticJob job;
  job.steps = 1;
  StepTrace trace = Play(job).trace;
  // A send in the middle of the pipeline that nobody recorded.
  for (size_t row = 0; row < trace.rows(); row++) {
    if (trace.type[row] == OpType::kForwardSend && trace.stage[row] == 1 && trace.seq[row] == 2) {
      RemoveRow(trace, row--);
    }
  }
  const auto result = AnalyzeWhatIf(trace, {.threads = 1});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr("stage 1: 5 forward-send for 6 forward-compute"));

  StepTrace twice = Play(job).trace;
  twice.seq[1] = twice.seq[0];
  twice.type[1] = twice.type[0];
  const auto doubled = AnalyzeWhatIf(twice, {.threads = 1});
  ASSERT_FALSE(doubled.ok());
  EXPECT_THAT(doubled.status().message(), HasSubstr("is there twice"));
}

TEST(WhatIf, UnevenSequencesAreToldFromASlowWorker) {
  SyntheticJob job;
  job.steps = 4;
  job.scale = [](OpType, int dp_rank, int, int step, int seq) {
    return 1 + 0.15 * ((dp_rank * 7 + step * 5 + seq * 3) % 6);
  };
  const PlayedJob uneven = Play(job);
  EXPECT_GT(ForwardBackwardCorrelation(ModelOf(uneven.trace)), 0.99);
  const auto hints = FindCauses(ModelOf(uneven.trace), Analyze(uneven.trace));
  EXPECT_TRUE(
      std::any_of(hints.begin(), hints.end(), [](const CauseHint& hint) { return hint.cause == "sequence-length"; }));

  job.scale = [](OpType, int dp_rank, int, int, int) { return 1 + dp_rank; };
  EXPECT_EQ(ForwardBackwardCorrelation(ModelOf(Play(job).trace)), 0);
}

TEST(WhatIf, PausesOfTheCollectorAreForwardOnlyAtDifferingSteps) {
  SyntheticJob job;
  job.steps = 8;
  job.scale = [](OpType type, int dp_rank, int stage, int step, int seq) {
    const bool pauses = type == OpType::kForwardCompute && step == dp_rank * 4 + stage && seq == 3;
    return pauses ? 1.8 : 1;
  };
  const PlayedJob played = Play(job);
  const auto result = AnalyzeWhatIf(played.trace, {.decompose_threshold = 1.001, .threads = 1});
  ASSERT_TRUE(result.ok());
  const auto hints = FindCauses(ModelOf(played.trace), *result);
  EXPECT_TRUE(std::any_of(hints.begin(), hints.end(),
                          [](const CauseHint& hint) { return hint.cause == "garbage-collection"; }));
}

}  // namespace
}  // namespace paceline::analysis
