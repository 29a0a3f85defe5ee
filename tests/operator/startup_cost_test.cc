#include "operator/training_run/startup_cost.h"

#include <gtest/gtest.h>

#include "operator/training_run/run_status.h"
#include "operator/webhook/injection.h"
#include "tests/operator/pod_builder.h"

namespace paceline::operator_ {
namespace {

using api::StartKind;

StageSpan Span(StageName stage, int64_t from_ms, std::optional<int64_t> to_ms) {
  StageSpan span{stage, AtMs(from_ms), std::nullopt, StageSource::kEvent, {}};
  if (to_ms) span.end = AtMs(*to_ms);
  return span;
}

TEST(StartupCost, CountsFromTheNodeToTheFirstStep) {
  const std::vector<StageSpan> stepped = {Span(StageName::kQueued, 0, 1000), Span(StageName::kScheduling, 1000, 3000),
                                          Span(StageName::kImage, 3000, 5000), Span(StageName::kFirstStep, 5000, 9000)};
  const std::vector<StageSpan> open = {Span(StageName::kScheduling, 0, 2000),
                                       Span(StageName::kContainerStart, 2000, 4000),
                                       Span(StageName::kFirstStep, 4000, std::nullopt)};
  const std::vector<StageSpan> queued = {Span(StageName::kScheduling, 0, std::nullopt)};
  struct Case {
    const char* name;
    std::vector<WorkerHolding> workers;
    std::optional<WallTime> open_until;
    double worker_seconds;
    std::optional<int64_t> gpus;
    std::optional<double> gpu_seconds;
  };
  const Case cases[] = {
      {"nobody", {}, AtMs(9000), 0, std::nullopt, std::nullopt},
      {"two that stepped", {{&stepped, 8}, {&stepped, 8}}, std::nullopt, 12, 16, 96},
      {"one waits still", {{&stepped, 8}, {&open, 4}}, AtMs(10'000), 14, 12, 6 * 8 + 8 * 4},
      {"one never told", {{&open, 1}}, std::nullopt, 2, 1, 2},
      {"one has no node", {{&queued, 8}}, AtMs(60'000), 0, 8, 0},
      {"one does not know its GPUs",
       {{&stepped, 8}, {&stepped, std::nullopt}},
       std::nullopt,
       12,
       std::nullopt,
       std::nullopt},
      {"no GPUs at all", {{&stepped, 0}}, std::nullopt, 6, 0, 0.0},
  };
  for (const Case& c : cases) {
    const api::StartupCost cost = ComputeStartupCost(c.workers, StartKind::kFull, c.open_until);
    EXPECT_DOUBLE_EQ(cost.worker_seconds, c.worker_seconds) << c.name;
    EXPECT_EQ(cost.gpus, c.gpus) << c.name;
    EXPECT_EQ(cost.gpu_seconds, c.gpu_seconds) << c.name;
  }
}

TEST(StartupCost, AStartOnTheSameNodesIsAHotRestart) {
  EXPECT_EQ(KindOfStart({"a", "b"}, {"a", "b", "c"}), StartKind::kHotRestart);
  EXPECT_EQ(KindOfStart({"a", "d"}, {"a", "b", "c"}), StartKind::kFull);
  EXPECT_EQ(KindOfStart({"a"}, {}), StartKind::kFull);
  EXPECT_EQ(KindOfStart({}, {"a"}), StartKind::kFull);
}

TEST(StartupCost, ReadsGpusOfThePodAsTheWebhookWroteThem) {
  EXPECT_EQ(GpusOf(*PodBuilder("p").Annotate(kGpusAnnotation, "8").Build()), 8);
  EXPECT_EQ(GpusOf(*PodBuilder("p").Annotate(kGpusAnnotation, "0").Build()), 0);
  for (const char* bad : {"", "-1", "eight", "8x", "99999999999999999999"}) {
    EXPECT_EQ(GpusOf(*PodBuilder("p").Annotate(kGpusAnnotation, bad).Build()), std::nullopt) << bad;
  }
}

WorkerInput GpuWorker(int rank, int64_t step_ms) {
  WorkerInput worker;
  worker.pod = PodBuilder("w" + std::to_string(rank))
                   .On("node-" + std::to_string(rank), AtMs(1000))
                   .Started(AtMs(2000))
                   .Annotate(kGpusAnnotation, "8")
                   .Build();
  worker.events = {ScheduledEvent(AtMs(1000))};
  if (step_ms > 0) worker.markers = {{"first_step", AtMs(step_ms)}};
  worker.rank = rank;
  return worker;
}

RunInput GpuRun(int64_t step_ms, int64_t now_ms) {
  RunInput input;
  input.spec.workers = 2;
  input.start = ExactMoment(AtMs(0), StageSource::kPodCondition);
  input.workers = {GpuWorker(0, step_ms), GpuWorker(1, step_ms)};
  input.now = AtMs(now_ms);
  return input;
}

TEST(StartupCost, OfARunGrowsUntilTheFirstStepAndThenStands) {
  RunInput input = GpuRun(0, 5000);
  api::TrainingRunStatus status = ComputeRunStatus(input);
  EXPECT_DOUBLE_EQ(*status.startup->gpu_seconds, 2 * 8 * 4);
  // What only grows is no news.
  input.before = status;
  input.now = AtMs(7000);
  EXPECT_TRUE(IsSameForReaders(status, ComputeRunStatus(input)));

  input = GpuRun(9000, 20'000);
  input.before = status;
  input.nodes_before = {"node-0", "node-1"};
  status = ComputeRunStatus(input);
  EXPECT_TRUE(HasStepped(status));
  EXPECT_EQ(status.startup->kind, StartKind::kHotRestart);
  EXPECT_DOUBLE_EQ(*status.startup->gpu_seconds, 2 * 8 * 8);
  EXPECT_EQ(status.startup->gpus, 16);

  // Pods that are gone take nothing away.
  input.before = status;
  input.workers.clear();
  input.end = JobEnd::kSucceeded;
  input.now = AtMs(90'000);
  EXPECT_DOUBLE_EQ(*ComputeRunStatus(input).startup->gpu_seconds, 2 * 8 * 8);
}

}  // namespace
}  // namespace paceline::operator_
