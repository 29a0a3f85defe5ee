#include "cli/runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/api/codec.h"

namespace paceline::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const WallTime kCreated = WallTime(1767323045s);

api::WorkerStage Between(api::StageName name, Duration start, Duration end) {
  return {name, kCreated + start, kCreated + end};
}

// A run of two workers that took 10 s to the first step, 7 of them for the image on n2.
api::TrainingRun FinishedRun() {
  api::TrainingRun run;
  run.metadata.name = "train-1a2b-0";
  run.metadata.ns = "demo";
  run.metadata.creation_timestamp = kCreated;
  run.spec.job = {"paceline.dev/v1alpha1", "TrainingJob", "train", "uid-1"};
  run.spec.workers = 2;
  run.status.phase = api::RunPhase::kSucceeded;
  run.status.nodes = {"n1", "n2"};
  run.status.queued_at = kCreated;
  run.status.first_step_at = kCreated + 10s;
  run.status.finished_at = kCreated + 30s;
  run.status.workers = {{0,
                         "train-0",
                         "n1",
                         {Between(api::StageName::kQueued, 0s, 1s), Between(api::StageName::kImage, 1s, 4s),
                          Between(api::StageName::kFirstStep, 4s, 10s)}},
                        {1,
                         "train-1",
                         "n2",
                         {Between(api::StageName::kQueued, 0s, 1s), Between(api::StageName::kImage, 1s, 8s),
                          Between(api::StageName::kFirstStep, 8s, 10s)}}};
  api::Stage queued{api::StageName::kQueued, kCreated, kCreated + 1s, 1, 1, 1, 2, "train-0", "n1",
                    api::StageSource::kEvent};
  api::Stage image{api::StageName::kImage,  kCreated + 1s, kCreated + 8s, 3, 5, 7, 2, "train-1", "n2",
                   api::StageSource::kEvent};
  api::Stage step{api::StageName::kFirstStep, kCreated + 4s, kCreated + 10s, 2, 4, 6, 2, "train-0", "n1",
                  api::StageSource::kMarker};
  run.status.stages = {queued, image, step};
  return run;
}

TEST(RunTable, ListsTheNewestFirstAndHidesTheNamespaceOnDemand) {
  api::TrainingRun older = FinishedRun();
  older.metadata.name = "older";
  older.metadata.creation_timestamp = kCreated - 100s;
  older.status.first_step_at.reset();
  const Table table = RunTable({older, FinishedRun()}, NamespaceColumn::kHide, kCreated + 90s);
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_THAT(table.rows[0],
              ElementsAre("train-1a2b-0", "train", "TrainingJob", "0", "Succeeded", "2", "10.0 s", "90s"));
  EXPECT_THAT(table.rows[1], ElementsAre("older", "train", "TrainingJob", "0", "Succeeded", "2", "", "3m"));
  EXPECT_EQ(RunTable({older}, NamespaceColumn::kShow, kCreated).rows[0][0], "demo");
}

TEST(JobTable, ShowsForeignJobsThroughTheirRunsAndCountsStarts) {
  api::TrainingJob job;
  job.metadata.name = "train";
  job.metadata.ns = "demo";
  job.metadata.uid = "uid-1";
  job.metadata.creation_timestamp = kCreated;
  job.status.conditions = {{"Complete", api::ConditionStatus::kTrue, 1, kCreated, "Done", ""}};
  api::TrainingRun restarted = FinishedRun();
  restarted.metadata.name = "train-1a2b-1";
  restarted.metadata.creation_timestamp = kCreated + 60s;
  restarted.spec.generation = 1;
  api::TrainingRun foreign = FinishedRun();
  foreign.metadata.name = "set-9-0";
  foreign.spec.job = {"jobset.x-k8s.io/v1alpha2", "JobSet", "set", "uid-2"};
  foreign.status.phase = api::RunPhase::kRunning;

  const Table table = JobTable({job}, {FinishedRun(), restarted, foreign}, NamespaceColumn::kHide, kCreated + 90s);
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_THAT(table.rows[0], ElementsAre("set", "JobSet", "Running", "2", "1", "set-9-0", "10.0 s", "90s"));
  EXPECT_THAT(table.rows[1],
              ElementsAre("train", "TrainingJob", "Complete", "2", "2", "train-1a2b-1", "10.0 s", "90s"));

  const nlohmann::json list = JobList({job}, {FinishedRun(), restarted, foreign});
  EXPECT_EQ(list[1]["latestRun"], "train-1a2b-1");
  EXPECT_EQ(list[1]["firstStepSeconds"], 10.0);
}

TEST(FindRun, TakesARunOrTheNewestRunOfAJob) {
  api::TrainingRun newer = FinishedRun();
  newer.metadata.name = "train-1a2b-1";
  newer.metadata.creation_timestamp = kCreated + 60s;
  const std::vector<api::TrainingRun> runs = {FinishedRun(), newer};
  EXPECT_EQ(FindRun(runs, "train-1a2b-0")->metadata.name, "train-1a2b-0");
  EXPECT_EQ(FindRun(runs, "train")->metadata.name, "train-1a2b-1");
  EXPECT_THAT(FindRun(runs, "trian").status().message(), HasSubstr("jobs with runs here: train"));
  EXPECT_THAT(FindRun({}, "train").status().message(), HasSubstr("no runs in this namespace"));
}

TEST(ExplainRun, DrawsEveryWorkerAndNamesTheLargestStage) {
  const std::string text = ExplainRun(FinishedRun(), {.width = 100}, kCreated + 90s);
  EXPECT_THAT(text, HasSubstr("startup   10.0 s from the job's creation to its first step"));
  EXPECT_THAT(text, HasSubstr("Q Queued   I Image   F FirstStep"));
  EXPECT_THAT(text, HasSubstr("train-1 on n2"));
  EXPECT_THAT(text, HasSubstr("* Image took 7.00 s of the startup (50 %): the nodes pulled the image"));
}

TEST(ExplainRun, StagesOfEachWorkerAddUpToItsWallTime) {
  const nlohmann::json value = ExplainRunValue(FinishedRun(), kCreated + 90s);
  EXPECT_EQ(value["wallSeconds"], 10.0);
  for (const nlohmann::json& worker : value["workers"]) {
    double sum = 0;
    for (const nlohmann::json& stage : worker["stages"]) sum += stage["seconds"].get<double>();
    EXPECT_DOUBLE_EQ(sum, 10.0);
  }
}

TEST(ExplainRun, TellsHowWorkersCameToTheirDependencies) {
  api::TrainingRun run = FinishedRun();
  EXPECT_THAT(ExplainRun(run, {}, kCreated + 90s), Not(HasSubstr("DEPENDENCIES")));
  run.status.snapshot = api::SnapshotUse{"deps-0123", api::SnapshotOutcome::kFellBack, ""};
  run.status.workers.push_back(run.status.workers[0]);
  run.status.workers[0].dependencies = {api::SnapshotOutcome::kRestored, "", 0.3};
  run.status.workers[2].dependencies = {api::SnapshotOutcome::kRestored, "", 0.5};
  run.status.workers[1].dependencies = {api::SnapshotOutcome::kFellBack, "the store is away", 34.2};
  const std::string text = ExplainRun(run, {}, kCreated + 90s);
  EXPECT_THAT(text, testing::ContainsRegex("Restored +2 +0.50 s +n1 +-\n"));
  EXPECT_THAT(text, testing::ContainsRegex("FellBack +1 +34.2 s +n2 +the store is away"));
  EXPECT_THAT(text, HasSubstr("snapshot: deps-0123\n"));
  EXPECT_THAT(Advise(run), testing::Contains(HasSubstr("fell back to the install on n2: the store is away")));
  const nlohmann::json value = ExplainRunValue(run, kCreated + 90s);
  EXPECT_EQ(value["workers"][1]["dependencies"],
            (nlohmann::json{{"outcome", "FellBack"}, {"reason", "the store is away"}, {"seconds", 34.2}}));
}

TEST(ExplainRun, SaysWhichOfAThousandWorkersItDraws) {
  api::TrainingRun run = FinishedRun();
  run.spec.workers = 1000;
  run.status.workers_omitted = 998;
  for (api::WorkerTimes& worker : run.status.workers) worker.dependencies = api::WorkerDependencies{};
  const std::string text = ExplainRun(run, {.width = 100}, kCreated + 90s);
  EXPECT_THAT(text, HasSubstr("workers   1000 (2 are drawn: the first ones and the slowest of each stage; the numbers "
                              "of the stages, the cost and the advice cover all)"));
  EXPECT_THAT(text, HasSubstr("counted over the 2 workers above; of 998 more it is not kept"));
  EXPECT_EQ(ExplainRunValue(run, kCreated + 90s)["workersOmitted"], 998);
}

TEST(ExplainRun, SaysWhatIsNotKnownYet) {
  api::TrainingRun run;
  EXPECT_THAT(ExplainRun(run, {}, kCreated), HasSubstr("nothing of this start has been seen yet"));
  run = FinishedRun();
  run.status.first_step_at.reset();
  run.status.finished_at.reset();
  run.status.workers[0].stages.back().end.reset();
  run.status.stages.back().max_seconds.reset();
  run.status.conditions = {
      {"FirstStepSeen", api::ConditionStatus::kFalse, 0, kCreated, "NoMarker", "no marker was written"}};
  const std::string text = ExplainRun(run, {}, kCreated + 20s);
  EXPECT_THAT(text, HasSubstr("20.0 s since the job's creation, first step not seen yet"));
  EXPECT_THAT(text, HasSubstr("20.0 s so far"));
  EXPECT_THAT(text, HasSubstr("FirstStepSeen=False (NoMarker): no marker was written"));
  run.status.finished_at = kCreated + 15s;
  EXPECT_THAT(ExplainRun(run, {}, kCreated + 20s),
              HasSubstr("ended after 15.0 s without a first step that anybody saw"));
}

TEST(ExplainRun, SaysHowTheImagesCame) {
  api::TrainingRun run = FinishedRun();
  EXPECT_THAT(ExplainRun(run, {}, kCreated), Not(HasSubstr("HOT SET")));
  api::RunImage pulled{
      "n1", "r.test/train:1", api::ImageMode::kPulled, false, "Unavailable", "docker://s: refused", {}, {}, {}};
  api::RunImage lazy{"n2",
                     "r.test/train:1",
                     api::ImageMode::kLazy,
                     false,
                     "",
                     "",
                     0.75,
                     api::HotSetState::kFetched,
                     api::ImageFigures{100, 2 << 20, 0, 3 << 20, 1 << 20, 3, 1}};
  api::RunImage old{"n3", "r.test/train:1", api::ImageMode::kLazy, true, "", "", 0.75, {}, {}};
  run.status.images = {pulled, lazy, old};
  for (const char* node : {"n1", "n4", "n5"}) {
    run.status.fallbacks.push_back({"lazy image", node, "r.test/train:1: Unavailable: docker://s: refused", {}});
  }
  for (const std::string& text : {ExplainRun(run, {}, kCreated), ShowRun(run, kCreated)}) {
    EXPECT_THAT(text, HasSubstr("pulled: Unavailable"));
    EXPECT_THAT(text,
                testing::ContainsRegex("n2 +r.test/train:1 +lazily +0.75 s +3.0 MiB +0 B +2.0 MiB +75 % +Fetched"));
    EXPECT_THAT(text, HasSubstr("was there"));
  }
  EXPECT_THAT(Advise(run), testing::Contains(HasSubstr("on n1 and 2 more nodes: r.test/train:1: Unavailable")));
  const nlohmann::json value = ExplainRunValue(run, kCreated);
  EXPECT_EQ(value["images"][1]["figures"]["registryBytes"], 3 << 20);
  run.status.images.assign(40, lazy);
  EXPECT_THAT(ExplainRun(run, {}, kCreated), HasSubstr("and 24 more"));
}

TEST(Advise, PointsAtTheNodeThatEverybodyWaitedFor) {
  api::TrainingRun run = FinishedRun();
  run.status.stages[1].workers = 8;
  run.status.stages[1].p50_seconds = 2;
  EXPECT_THAT(Advise(run), testing::Contains(HasSubstr("Image was uneven: 7.00 s on n2 against a median of 2.00 s")));
  // Of two workers one is always the slower: that is no finding.
  run.status.stages[1].workers = 2;
  EXPECT_THAT(Advise(run), Not(testing::Contains(HasSubstr("uneven"))));
  EXPECT_TRUE(Advise(api::TrainingRun()).empty());
}

TEST(FormatAge, RoundsDownLikeKubectl) {
  EXPECT_EQ(FormatAge(119s), "119s");
  EXPECT_EQ(FormatAge(7199s), "119m");
  EXPECT_EQ(FormatAge(47h), "47h");
  EXPECT_EQ(FormatAge(100h), "4d");
  EXPECT_EQ(FormatAge(-5s), "0s");  // the two clocks may differ
}

}  // namespace
}  // namespace paceline::cli
