#include "operator/training_run/run_metrics.h"

#include <gtest/gtest.h>

#include <sstream>

#include "operator/training_run/run_status.h"
#include "operator/webhook/injection.h"
#include "tests/fakes/simulated_clock.h"
#include "tests/operator/pod_builder.h"

namespace paceline::operator_ {
namespace {

// A run of `workers` ranks whose startup is over, as the operator itself computes it.
api::TrainingRun RunOf(int workers, const std::string& name = "run-0") {
  RunInput input;
  input.spec.workers = workers;
  input.start = ExactMoment(AtMs(0), StageSource::kPodCondition);
  for (int rank = 0; rank < workers; ++rank) {
    WorkerInput worker;
    worker.pod = PodBuilder("w" + std::to_string(rank))
                     .On("node-" + std::to_string(rank / 8), AtMs(1000))
                     .Started(AtMs(2000))
                     .Annotate(kGpusAnnotation, "1")
                     .Build();
    worker.events = {ScheduledEvent(AtMs(1000))};
    worker.markers = {{"first_step", AtMs(9000)}};
    worker.rank = rank;
    input.workers.push_back(std::move(worker));
  }
  input.now = AtMs(10'000);
  api::TrainingRun run;
  run.metadata.ns = "team";
  run.metadata.name = name;
  run.spec.job = {"batch/v1", "Job", "train", "uid-1"};
  run.spec.workers = workers;
  run.status = ComputeRunStatus(input);
  return run;
}

class RunMetricsTest : public ::testing::Test {
 protected:
  RunMetricsTest() : clock_(AtMs(10'000)) {}

  size_t Series() {
    std::istringstream page(registry_->Render());
    size_t count = 0;
    for (std::string line; std::getline(page, line);) count += !line.empty() && line[0] != '#' ? 1 : 0;
    return count;
  }
  bool Has(const std::string& line) {
    const std::string page = registry_->Render();
    return page.find(line + "\n") != std::string::npos;
  }

  fakes::SimulatedClock clock_;
  const std::unique_ptr<MetricsRegistry> registry_ = MetricsRegistry::Create();
  RunMetrics metrics_{*registry_, clock_};
};

TEST_F(RunMetricsTest, ARunHasAsManySeriesWithTenThousandRanksAsWithTwo) {
  const api::TrainingRun small = RunOf(2);
  metrics_.Count(small, {});
  metrics_.Show(small);
  const size_t with_two = Series();
  EXPECT_GT(with_two, 20u);

  const api::TrainingRun large = RunOf(10'000, "run-1");
  EXPECT_EQ(large.status.workers_omitted, 10'000 - 256);
  metrics_.Count(large, {});
  metrics_.Show(large);
  metrics_.Keep("uid-1", {"run-1"});
  EXPECT_EQ(Series(), with_two) << registry_->Render();
  EXPECT_TRUE(Has(R"(paceline_run_workers{job="train",namespace="team",run="run-1"} 10000)"));
  // A GPU each, held from second 1 to second 9.
  EXPECT_TRUE(Has(R"(paceline_run_startup_gpu_seconds{job="train",namespace="team",run="run-1"} 80000)"));
  EXPECT_LT(registry_->Render().size(), 100'000u);
}

TEST_F(RunMetricsTest, NoLabelHoldsARankOrAPod) {
  for (const MetricsRegistry::Description& family : registry_->Describe()) {
    for (const std::string& label : family.label_names) {
      EXPECT_TRUE(label != "rank" && label != "pod" && label != "worker") << family.name;
    }
  }
}

TEST_F(RunMetricsTest, TellsAStageByItsSlowestNodeAndForgetsTheOneBefore) {
  api::TrainingRun run = RunOf(2);
  run.status.stages = {{api::StageName::kImage, AtMs(0), AtMs(8000), 1, 2, 8, 2, "w1", "node-b", {}}};
  metrics_.Show(run);
  EXPECT_TRUE(
      Has(R"(paceline_run_stage_seconds{job="train",namespace="team",run="run-0",stage="Image",stat="p50"} 2)"));
  EXPECT_TRUE(Has(
      R"(paceline_run_stage_slowest_seconds{job="train",namespace="team",node="node-b",run="run-0",stage="Image"} 8)"));
  run.status.stages[0].slowest_node = "node-c";
  metrics_.Show(run);
  EXPECT_EQ(registry_->Render().find("node-b"), std::string::npos);
}

TEST_F(RunMetricsTest, CountsAStartupOnce) {
  const api::TrainingRun run = RunOf(4);
  const std::string total = R"(paceline_startup_gpu_seconds_total{namespace="team",outcome="Stepped",start="Full"} 32)";
  metrics_.Count(run, {});
  EXPECT_TRUE(Has(total)) << registry_->Render();
  metrics_.Count(run, {});  // an old copy was looked at
  metrics_.Count(run, run.status);
  EXPECT_TRUE(Has(total));
  EXPECT_TRUE(Has(R"(paceline_startup_seconds_count{start="Full"} 1)"));
  EXPECT_TRUE(Has(R"(paceline_startup_worker_stage_seconds_count{stage="FirstStep",start="Full"} 4)"));
}

TEST_F(RunMetricsTest, AStartupThatFailedCostsButIsNoStartupTime) {
  api::TrainingRun run = RunOf(2);
  run.status.conditions.clear();
  run.status.phase = api::RunPhase::kFailed;
  metrics_.Count(run, {});
  EXPECT_TRUE(Has(R"(paceline_startup_gpu_seconds_total{namespace="team",outcome="Ended",start="Full"} 16)"));
  EXPECT_TRUE(Has(R"(paceline_startup_seconds_count{start="Full"} 0)"));
}

TEST_F(RunMetricsTest, CountersAreThereBeforeTheyCount) {
  api::TrainingRun run = RunOf(2);
  run.status = {};
  run.status.phase = api::RunPhase::kPending;
  metrics_.Show(run);
  for (const char* start : {"Full", "HotRestart"}) {
    const std::string end = std::string("start=\"") + start + "\"} 0";
    EXPECT_TRUE(Has(R"(paceline_startup_gpu_seconds_total{namespace="team",outcome="Stepped",)" + end));
    EXPECT_TRUE(Has(R"(paceline_startup_worker_seconds_total{namespace="team",outcome="Ended",)" + end));
    EXPECT_TRUE(Has("paceline_startup_seconds_count{" + end));
    EXPECT_TRUE(Has(R"(paceline_startup_worker_stage_seconds_count{stage="Image",)" + end));
  }
}

TEST_F(RunMetricsTest, SeriesGoWithTheirRunTheirJobAndTheirTime) {
  const std::string phase = R"(paceline_runs{namespace="team",phase="Running"} )";
  metrics_.Show(RunOf(2));
  metrics_.Show(RunOf(2, "run-1"));
  EXPECT_TRUE(Has(phase + "2"));
  metrics_.Keep("uid-1", {"run-1"});
  EXPECT_TRUE(Has(phase + "1"));
  EXPECT_EQ(registry_->Render().find("run-0"), std::string::npos);

  api::TrainingRun ended = RunOf(2, "run-1");
  ended.status.phase = api::RunPhase::kSucceeded;
  ended.status.finished_at = clock_.WallNow() - std::chrono::hours(2);
  metrics_.Show(ended);
  EXPECT_EQ(registry_->Render().find("run-1"), std::string::npos) << "ended long ago";
  EXPECT_TRUE(Has(R"(paceline_runs{namespace="team",phase="Succeeded"} 1)")) << "but it exists";

  metrics_.ForgetJob("JobSet", {"team", "train"});
  EXPECT_TRUE(Has(R"(paceline_runs{namespace="team",phase="Succeeded"} 1)")) << "another kind";
  metrics_.ForgetJob("Job", {"team", "train"});
  EXPECT_TRUE(Has(R"(paceline_runs{namespace="team",phase="Succeeded"} 0)"));
}

}  // namespace
}  // namespace paceline::operator_
