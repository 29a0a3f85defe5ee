#include "operator/training_job/plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/api/names.h"
#include "operator/training_job/manifest.h"

namespace paceline::operator_ {
namespace {

using api::JobPhase;
using std::chrono::milliseconds;
using std::chrono::seconds;

const WallTime kNow{seconds(1767323040)};

api::TrainingJob NewJob() {
  api::TrainingJob job;
  job.metadata.name = "llama";
  job.metadata.ns = "team";
  job.metadata.uid = "u1";
  job.metadata.generation = 1;
  job.metadata.creation_timestamp = kNow - seconds(100);
  job.spec.workers = 2;
  job.spec.pod_template = std::make_shared<nlohmann::json>(
      nlohmann::json::parse(R"({"spec":{"containers":[{"name":"main","image":"x"}]}})"));
  return job;
}

ObservedJob Child(int64_t generation, int64_t restarts = 0) {
  ObservedJob child;
  child.generation = generation;
  child.restarts = restarts;
  child.name = "llama-g" + std::to_string(generation);
  child.uid = "job-" + std::to_string(generation);
  child.created = kNow - seconds(50);
  return child;
}

ObservedJob Failed(ObservedJob child, Duration ago) {
  child.is_failed = true;
  child.end_time = kNow - ago;
  child.failure_message = "backoff limit";
  return child;
}

ObservedWorker Running(int64_t generation) {
  ObservedWorker worker;
  worker.generation = generation;
  worker.is_running = worker.is_ready = true;
  return worker;
}

TrainingJobObservation Seen(std::vector<ObservedJob> jobs, std::vector<ObservedWorker> workers = {}) {
  TrainingJobObservation seen;
  seen.jobs = std::move(jobs);
  seen.workers = std::move(workers);
  seen.has_service = true;
  seen.now = kNow;
  return seen;
}

template <typename Action>
std::vector<Action> Of(const TrainingJobPlan& plan) {
  std::vector<Action> found;
  for (const TrainingJobAction& action : plan.actions) {
    if (const auto* one = std::get_if<Action>(&action)) found.push_back(*one);
  }
  return found;
}

// The job as it is after `plan`'s status was written.
api::TrainingJob After(api::TrainingJob job, const TrainingJobPlan& plan) {
  job.status = plan.status;
  return job;
}

const api::Condition* Find(const TrainingJobPlan& plan, std::string_view type) {
  return api::FindCondition(plan.status.conditions, type);
}

TEST(PlanTrainingJob, MakesServiceThenJobForANewJob) {
  TrainingJobObservation seen = Seen({});
  seen.has_service = false;
  const TrainingJobPlan plan = PlanTrainingJob(NewJob(), seen);
  ASSERT_EQ(plan.actions.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<CreateService>(plan.actions[0]));
  EXPECT_EQ(std::get<CreateJob>(plan.actions[1]).start, (StartSpec{0, 0, std::nullopt}));
  EXPECT_EQ(plan.status.phase, JobPhase::kPending);
  EXPECT_EQ(plan.status.observed_generation, 1);
}

TEST(JobManifest, HasTheCheckpointsInItsTemplate) {
  api::TrainingJob job;
  job.metadata.name = "llama";
  job.spec.checkpoints = {{.name = "out", .uri = "hdfs://ns/o", .mount_path = "/out"}};
  job.spec.pod_template =
      std::make_shared<const nlohmann::json>(nlohmann::json::parse(R"({"spec":{"volumes":[{"name":"v"}],"containers":[
      {"name":"main"},{"name":"side","volumeMounts":[{"name":"v","mountPath":"/out"}]}]}})"));
  const nlohmann::json spec = JobManifest(job, {})["spec"]["template"]["spec"];
  EXPECT_EQ(spec["volumes"].size(), 2u);
  EXPECT_EQ(spec["volumes"][1]["csi"]["volumeAttributes"]["uri"], "hdfs://ns/o");
  EXPECT_EQ(spec["containers"][0]["volumeMounts"][0]["mountPath"], "/out");
  EXPECT_EQ(spec["containers"][1]["volumeMounts"].size(), 1u);
  job.spec.checkpoints.clear();
  EXPECT_FALSE(JobManifest(job, {})["spec"]["template"]["spec"]["containers"][0].contains("volumeMounts"));
}

TEST(PlanTrainingJob, MakesTheSameAgainWhenTheCacheDoesNotShowItYet) {
  const api::TrainingJob job = NewJob();
  const TrainingJobPlan first = PlanTrainingJob(job, Seen({}));
  const TrainingJobPlan again = PlanTrainingJob(After(job, first), Seen({}));
  EXPECT_EQ(first.actions, again.actions);
}

TEST(PlanTrainingJob, PhaseFollowsTheWorkers) {
  struct Case {
    const char* name;
    std::vector<ObservedWorker> workers;
    JobPhase phase;
    int64_t ready;
  };
  ObservedWorker waiting;
  ObservedWorker succeeded;
  succeeded.is_succeeded = true;
  ObservedWorker of_older = Running(0);
  of_older.generation = 7;
  const Case cases[] = {{"none", {}, JobPhase::kPending, 0},
                        {"one of two", {Running(0), waiting}, JobPhase::kPending, 1},
                        {"both", {Running(0), Running(0)}, JobPhase::kRunning, 2},
                        {"one has ended", {Running(0), succeeded}, JobPhase::kRunning, 1},
                        {"of another generation", {Running(0), of_older}, JobPhase::kPending, 1}};
  for (const Case& c : cases) {
    const TrainingJobPlan plan = PlanTrainingJob(NewJob(), Seen({Child(0)}, c.workers));
    EXPECT_EQ(plan.status.phase, c.phase) << c.name;
    EXPECT_EQ(plan.status.workers.ready, c.ready) << c.name;
    EXPECT_TRUE(plan.actions.empty()) << c.name;
    EXPECT_EQ(plan.status.start_time, kNow - seconds(50)) << c.name;
  }
}

TEST(PlanTrainingJob, CompletesOnceAndStaysComplete) {
  ObservedJob child = Child(0);
  child.is_complete = true;
  child.end_time = kNow - seconds(1);
  const TrainingJobPlan plan = PlanTrainingJob(NewJob(), Seen({child}));
  EXPECT_EQ(plan.status.phase, JobPhase::kComplete);
  EXPECT_EQ(plan.status.completion_time, kNow - seconds(1));
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_EQ(plan.events[0].reason, "Complete");
  // Even when its Job is removed by hand afterwards.
  const TrainingJobPlan later = PlanTrainingJob(After(NewJob(), plan), Seen({}));
  EXPECT_TRUE(later.actions.empty());
  EXPECT_TRUE(later.events.empty());
  EXPECT_EQ(later.status.phase, JobPhase::kComplete);
}

TEST(PlanTrainingJob, FailsWithTheReasonOfTheWorkerThatFailedFirst) {
  TrainingJobObservation seen = Seen({Failed(Child(0), seconds(3))});
  seen.failure = Explanation{"OOMKilled", "pod llama-g0-1 was killed"};
  const TrainingJobPlan plan = PlanTrainingJob(NewJob(), seen);
  EXPECT_EQ(plan.status.phase, JobPhase::kFailed);
  const api::Condition* failed = Find(plan, api::kFailedCondition);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->reason, "OOMKilled");
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_TRUE(plan.events[0].is_warning);
  EXPECT_TRUE(plan.actions.empty());
}

TEST(PlanTrainingJob, RestartsTheGangAfterADelayThatGrows) {
  api::TrainingJob job = NewJob();
  job.spec.restart_policy = {api::RestartMode::kOnFailure, 2};
  struct Case {
    const char* name;
    ObservedJob child;
    std::optional<int64_t> starts_generation;
    JobPhase phase;
  };
  const Case cases[] = {
      {"too early", Failed(Child(0), seconds(4)), std::nullopt, JobPhase::kRestarting},
      {"first", Failed(Child(0), seconds(5)), 1, JobPhase::kRestarting},
      {"second, too early", Failed(Child(1, 1), seconds(9)), std::nullopt, JobPhase::kRestarting},
      {"second", Failed(Child(1, 1), seconds(10)), 2, JobPhase::kRestarting},
      {"third is one too many", Failed(Child(2, 2), seconds(100)), std::nullopt, JobPhase::kFailed},
  };
  for (const Case& c : cases) {
    const TrainingJobPlan plan = PlanTrainingJob(job, Seen({c.child}));
    const auto starts = Of<CreateJob>(plan);
    ASSERT_EQ(starts.size(), c.starts_generation ? 1u : 0u) << c.name;
    if (c.starts_generation) {
      EXPECT_EQ(starts[0].start, (StartSpec{*c.starts_generation, c.child.restarts + 1, c.child.end_time})) << c.name;
    }
    EXPECT_EQ(plan.status.phase, c.phase) << c.name;
    if (c.phase == JobPhase::kRestarting && !c.starts_generation) {
      EXPECT_TRUE(plan.look_again_after) << c.name;
    }
  }
}

TEST(PlanTrainingJob, ARestartSurvivesACrashAtEveryStep) {
  api::TrainingJob job = NewJob();
  job.spec.restart_policy.mode = api::RestartMode::kOnFailure;
  const std::vector<ObservedJob> before = {Failed(Child(0), seconds(60))};
  const TrainingJobPlan plan = PlanTrainingJob(job, Seen(before));
  ASSERT_EQ(Of<CreateJob>(plan).size(), 1u);
  // Crash before the Job was made: the same Job again.
  EXPECT_EQ(PlanTrainingJob(job, Seen(before)).actions, plan.actions);
  // Crash after it, before the status: the Job itself tells generation and restarts.
  const std::vector<ObservedJob> after = {before[0], Child(1, 1)};
  const TrainingJobPlan resumed = PlanTrainingJob(job, Seen(after));
  EXPECT_TRUE(resumed.actions.empty());
  EXPECT_EQ(resumed.status.run_generation, 1);
  EXPECT_EQ(resumed.status.restarts, 1);
}

TEST(PlanTrainingJob, WaitsForTheOldWorkersBeforeARestart) {
  api::TrainingJob job = NewJob();
  job.spec.restart_policy.mode = api::RestartMode::kOnFailure;
  ObservedWorker leaving = Running(0);
  leaving.deletion_time = kNow + seconds(10);
  const TrainingJobPlan waits = PlanTrainingJob(job, Seen({Failed(Child(0), seconds(60))}, {leaving}));
  EXPECT_TRUE(waits.actions.empty());
  EXPECT_EQ(waits.look_again_after, Duration(seconds(10) + kLostAfter));
  // Its node does not answer: it is not waited for for ever.
  leaving.deletion_time = kNow - kLostAfter;
  const TrainingJobPlan goes_on = PlanTrainingJob(job, Seen({Failed(Child(0), seconds(60))}, {leaving}));
  EXPECT_EQ(Of<CreateJob>(goes_on).size(), 1u);
}

TEST(PlanTrainingJob, APodThatIsLostEndsTheGang) {
  api::TrainingJob job = NewJob();
  job.spec.restart_policy.mode = api::RestartMode::kOnFailure;
  ObservedWorker lost = Running(0);
  lost.deletion_time = kNow - kLostAfter - seconds(1);
  const TrainingJobPlan plan = PlanTrainingJob(job, Seen({Child(0)}, {lost, Running(0)}));
  ASSERT_EQ(Of<DeleteJob>(plan).size(), 1u);
  EXPECT_EQ(Of<DeleteJob>(plan)[0].uid, "job-0");
  EXPECT_TRUE(Of<CreateJob>(plan).empty());
  // When the Job and the other worker are gone the next generation starts, for that reason.
  TrainingJobObservation gone = Seen({}, {lost});
  gone.is_current_job_gone = true;
  api::TrainingJob next = After(job, plan);
  const TrainingJobPlan restarted = PlanTrainingJob(next, gone);
  ASSERT_EQ(Of<CreateJob>(restarted).size(), 1u);
  EXPECT_EQ(Of<CreateJob>(restarted)[0].start.generation, 1);
  EXPECT_EQ(Find(restarted, api::kRestartingCondition)->reason, "WorkerLost");
}

TEST(PlanTrainingJob, ARequestedRestartBeginsTheNextStartAndIsNoFailure) {
  api::TrainingJob job = NewJob();  // one that never restarts by itself
  job.status.start_time = kNow - seconds(50);
  job.metadata.annotations[std::string(api::kRestartAnnotation)] = "0";
  job.metadata.annotations[std::string(api::kRestartReasonAnnotation)] = "a node is slow";
  const TrainingJobPlan ends = PlanTrainingJob(job, Seen({Child(0)}, {Running(0), Running(0)}));
  ASSERT_EQ(Of<DeleteJob>(ends).size(), 1u);
  EXPECT_EQ(Of<DeleteJob>(ends)[0].uid, "job-0");
  EXPECT_TRUE(Of<CreateJob>(ends).empty());
  EXPECT_EQ(ends.status.phase, JobPhase::kRestarting);
  ASSERT_EQ(ends.events.size(), 1u);
  EXPECT_NE(ends.events[0].note.find("a node is slow"), std::string::npos);
  // What has begun is ended, whatever becomes of the annotation: the Job is gone, and that is no failure.
  job = After(job, ends);
  job.metadata.annotations.clear();
  ObservedWorker leaving = Running(0);
  leaving.deletion_time = kNow + seconds(10);
  TrainingJobObservation gone = Seen({}, {leaving});
  gone.is_current_job_gone = true;
  EXPECT_TRUE(PlanTrainingJob(job, gone).actions.empty()) << "it may still write its checkpoint";
  gone.workers.clear();
  const TrainingJobPlan next = PlanTrainingJob(job, gone);
  ASSERT_EQ(Of<CreateJob>(next).size(), 1u);
  EXPECT_EQ(Of<CreateJob>(next)[0].start.generation, 1);
  EXPECT_EQ(Of<CreateJob>(next)[0].start.restarts, 0);
  EXPECT_TRUE(next.events.empty());
  // The new start runs, and the old wish is not for it.
  job.metadata.annotations[std::string(api::kRestartAnnotation)] = "0";
  const TrainingJobPlan runs = PlanTrainingJob(job, Seen({Child(1)}, {Running(1), Running(1)}));
  EXPECT_TRUE(runs.actions.empty());
  EXPECT_EQ(runs.status.phase, JobPhase::kRunning);
  EXPECT_FALSE(api::IsConditionTrue(runs.status.conditions, api::kRestartingCondition));
}

TEST(PlanTrainingJob, AWishForAnotherStartOrForNoneIsNoWish) {
  for (const char* wish : {"1", "", "-1", "0x", " 0", "true", "99999999999999999999"}) {
    api::TrainingJob job = NewJob();
    job.metadata.annotations[std::string(api::kRestartAnnotation)] = wish;
    EXPECT_TRUE(PlanTrainingJob(job, Seen({Child(0)}, {Running(0), Running(0)})).actions.empty()) << wish;
  }
  // Nor is one for a job that has come to its end.
  api::TrainingJob job = NewJob();
  job.metadata.annotations[std::string(api::kRestartAnnotation)] = "0";
  ObservedJob done = Child(0);
  done.is_complete = true;
  EXPECT_EQ(PlanTrainingJob(job, Seen({done})).status.phase, JobPhase::kComplete);
}

TEST(PlanTrainingJob, AsksTheServerBeforeItBelievesThatAJobIsGone) {
  api::TrainingJob job = NewJob();
  job.status.start_time = kNow - seconds(50);
  job.status.run_generation = 3;
  TrainingJobObservation seen = Seen({Child(2)});
  const TrainingJobPlan asks = PlanTrainingJob(job, seen);
  ASSERT_EQ(asks.actions.size(), 1u);
  EXPECT_EQ(std::get<ConfirmJob>(asks.actions[0]).generation, 3);
  seen.is_current_job_gone = true;
  const TrainingJobPlan believes = PlanTrainingJob(job, seen);
  EXPECT_EQ(believes.status.phase, JobPhase::kFailed);
  EXPECT_EQ(Find(believes, api::kFailedCondition)->reason, "JobDeleted");
}

TEST(PlanTrainingJob, SuspendEndsTheStartAndResumeMakesTheNext) {
  api::TrainingJob job = NewJob();
  job.spec.suspend = true;
  const TrainingJobPlan suspend = PlanTrainingJob(job, Seen({Child(0)}, {Running(0)}));
  ASSERT_EQ(suspend.actions.size(), 1u);
  EXPECT_EQ(std::get<DeleteJob>(suspend.actions[0]).name, "llama-g0");
  EXPECT_EQ(suspend.status.phase, JobPhase::kSuspended);
  EXPECT_EQ(suspend.status.run_generation, 0);

  job = After(job, suspend);
  const TrainingJobPlan quiet = PlanTrainingJob(job, Seen({}));
  EXPECT_TRUE(quiet.actions.empty());
  EXPECT_EQ(Find(quiet, api::kSuspendedCondition)->reason, "Suspended");

  job = After(job, quiet);
  job.spec.suspend = false;
  TrainingJobObservation gone = Seen({});
  gone.is_current_job_gone = true;
  const TrainingJobPlan resume = PlanTrainingJob(job, gone);
  ASSERT_EQ(Of<CreateJob>(resume).size(), 1u);
  EXPECT_EQ(Of<CreateJob>(resume)[0].start, (StartSpec{1, 0, kNow}));
}

TEST(PlanTrainingJob, ResumingWhileTheOldStartIsStillEndingIsNoFailure) {
  api::TrainingJob job = NewJob();
  job.spec.suspend = true;
  job = After(job, PlanTrainingJob(job, Seen({Child(0)}, {Running(0)})));
  job.spec.suspend = false;
  ObservedJob ending = Child(0);
  ending.is_being_deleted = true;
  const TrainingJobPlan waits = PlanTrainingJob(job, Seen({ending}, {Running(0)}));
  EXPECT_TRUE(waits.actions.empty());
  job = After(job, waits);
  TrainingJobObservation gone = Seen({});
  gone.is_current_job_gone = true;
  const TrainingJobPlan resume = PlanTrainingJob(job, gone);
  ASSERT_EQ(Of<CreateJob>(resume).size(), 1u);
  EXPECT_EQ(Of<CreateJob>(resume)[0].start.restarts, 0);
}

TEST(PlanTrainingJob, NothingIsMadeForAJobThatIsCreatedSuspended) {
  api::TrainingJob job = NewJob();
  job.spec.suspend = true;
  TrainingJobObservation seen = Seen({});
  seen.has_service = false;
  const TrainingJobPlan plan = PlanTrainingJob(job, seen);
  EXPECT_TRUE(plan.actions.empty());
  job = After(job, plan);
  job.spec.suspend = false;
  const TrainingJobPlan resume = PlanTrainingJob(job, seen);
  ASSERT_EQ(Of<CreateJob>(resume).size(), 1u);
  EXPECT_EQ(Of<CreateJob>(resume)[0].start, (StartSpec{0, 0, kNow}));  // its queue time begins now
}

TEST(PlanTrainingJob, ASpecThatCannotWorkMakesNothingAndSaysWhy) {
  api::TrainingJob job = NewJob();
  job.spec.workers = 0;
  const TrainingJobPlan plan = PlanTrainingJob(job, Seen({}));
  EXPECT_TRUE(plan.actions.empty());
  const api::Condition* valid = Find(plan, api::kConfigurationValidCondition);
  ASSERT_NE(valid, nullptr);
  EXPECT_EQ(valid->status, api::ConditionStatus::kFalse);
  EXPECT_NE(valid->message.find("spec.workers"), std::string::npos) << valid->message;
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_TRUE(plan.events[0].is_warning);
  // Told once, not on every look.
  EXPECT_TRUE(PlanTrainingJob(After(job, plan), Seen({})).events.empty());
}

TEST(PlanTrainingJob, ARefusalIsAConditionAndIsTriedAgain) {
  TrainingJobObservation seen = Seen({});
  seen.refusal_reason = "NameConflict";
  seen.refusal_message = "Service \"llama\" exists";
  const TrainingJobPlan plan = PlanTrainingJob(NewJob(), seen);
  EXPECT_EQ(Find(plan, api::kConfigurationValidCondition)->reason, "NameConflict");
  EXPECT_TRUE(plan.actions.empty());
  EXPECT_TRUE(plan.look_again_after);
  const TrainingJobPlan later = PlanTrainingJob(After(NewJob(), plan), Seen({}));
  EXPECT_EQ(Of<CreateJob>(later).size(), 1u);
  EXPECT_EQ(Find(later, api::kConfigurationValidCondition)->status, api::ConditionStatus::kTrue);
}

TEST(PlanTrainingJob, GoesWhenItsTimeToLiveIsOver) {
  api::TrainingJob job = NewJob();
  job.spec.ttl_seconds_after_finished = 60;
  ObservedJob child = Child(0);
  child.is_complete = true;
  child.end_time = kNow - seconds(20);
  const TrainingJobPlan early = PlanTrainingJob(job, Seen({child}));
  EXPECT_TRUE(Of<DeleteTrainingJob>(early).empty());
  EXPECT_EQ(early.look_again_after, Duration(seconds(40)));
  TrainingJobObservation late = Seen({child});
  late.now = kNow + seconds(40);
  EXPECT_EQ(Of<DeleteTrainingJob>(PlanTrainingJob(After(job, early), late)).size(), 1u);
}

TEST(PlanTrainingJob, KeepsTheLastFailedJobAndDropsThoseBefore) {
  const TrainingJobPlan plan =
      PlanTrainingJob(NewJob(), Seen({Failed(Child(0), seconds(90)), Failed(Child(1, 1), seconds(60)), Child(2, 2)}));
  ASSERT_EQ(plan.actions.size(), 1u);
  EXPECT_EQ(std::get<DeleteJob>(plan.actions[0]).name, "llama-g0");
}

TEST(PlanTrainingJob, TouchesNothingOfAJobThatIsBeingDeleted) {
  api::TrainingJob job = NewJob();
  job.metadata.deletion_timestamp = kNow;
  const TrainingJobPlan plan = PlanTrainingJob(job, Seen({Child(0)}));
  EXPECT_TRUE(plan.actions.empty());
  EXPECT_TRUE(plan.status.conditions.empty());
}

TEST(RestartDelay, GrowsToFiveMinutes) {
  EXPECT_EQ(RestartDelay(0), Duration(seconds(5)));
  EXPECT_EQ(RestartDelay(3), Duration(seconds(40)));
  EXPECT_EQ(RestartDelay(9999), Duration(seconds(300)));
}

}  // namespace
}  // namespace paceline::operator_
