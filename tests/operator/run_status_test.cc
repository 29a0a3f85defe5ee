#include "operator/training_run/run_status.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "lib/api/codec.h"
#include "tests/operator/pod_builder.h"

namespace paceline::operator_ {
namespace {

using api::RunPhase;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

WorkerInput Stepped(int rank, int64_t started_ms, int64_t step_ms) {
  WorkerInput worker;
  const std::string name = "w" + std::to_string(rank);
  worker.pod = PodBuilder(name).On("node-" + std::to_string(rank), AtMs(400)).Started(AtMs(started_ms)).Build();
  worker.events = {ScheduledEvent(AtMs(410)),
                   KubeletEvent("Pulled", "Container image \"x\" already present on machine", AtMs(900)),
                   KubeletEvent("Started", "", AtMs(started_ms + 20))};
  if (step_ms > 0) worker.markers = {{"first_step", AtMs(step_ms)}};
  worker.rank = rank;
  return worker;
}

RunInput Input(std::vector<WorkerInput> workers, int64_t now_ms = 60'000) {
  RunInput input;
  input.spec.workers = static_cast<int64_t>(workers.size());
  input.start = SecondMoment(AtMs(0), std::nullopt, StageSource::kPodCondition);
  input.workers = std::move(workers);
  input.now = AtMs(now_ms);
  return input;
}

const api::Stage* Find(const api::TrainingRunStatus& status, StageName name) {
  for (const api::Stage& stage : status.stages) {
    if (stage.name == name) return &stage;
  }
  return nullptr;
}

const api::Condition& Condition(const api::TrainingRunStatus& status, std::string_view type) {
  const api::Condition* found = api::FindCondition(status.conditions, type);
  static const api::Condition kNone;
  EXPECT_NE(found, nullptr) << type;
  return found == nullptr ? kNone : *found;
}

TEST(ComputeRunStatus, EachWorkersStagesAddUpToItsWallTime) {
  const api::TrainingRunStatus status = ComputeRunStatus(Input({Stepped(0, 2100, 5000), Stepped(1, 3300, 5400)}));
  EXPECT_EQ(status.phase, RunPhase::kRunning);
  ASSERT_EQ(status.workers.size(), 2u);
  for (const api::WorkerTimes& worker : status.workers) {
    Duration sum{};
    for (const api::WorkerStage& stage : worker.stages) sum += *stage.end - *stage.start;
    EXPECT_EQ(sum, AtMs(worker.rank == 0 ? 5000 : 5400) - AtMs(0)) << worker.pod;
  }
  EXPECT_DOUBLE_EQ(*status.wall_seconds, 5.4);
  EXPECT_EQ(status.first_step_at, AtMs(5400));
  const api::Stage* start = Find(status, StageName::kContainerStart);
  ASSERT_NE(start, nullptr);
  EXPECT_EQ(start->workers, 2);
  EXPECT_EQ(start->slowest_pod, "w1");
  EXPECT_EQ(start->slowest_node, "node-1");
  EXPECT_DOUBLE_EQ(*start->max_seconds, 2.91);
  EXPECT_DOUBLE_EQ(*start->min_seconds, 1.71);
  EXPECT_DOUBLE_EQ(*start->p50_seconds, 2.31);
  EXPECT_EQ(Find(status, StageName::kFirstStep)->source, StageSource::kMarker);
  EXPECT_EQ(status.nodes, (std::vector<std::string>{"node-0", "node-1"}));
  EXPECT_EQ(Condition(status, kFirstStepCondition).status, api::ConditionStatus::kTrue);
  EXPECT_EQ(Condition(status, kTimesCompleteCondition).status, api::ConditionStatus::kTrue);
}

TEST(ComputeRunStatus, Phases) {
  const auto pending = [](const char* name) {
    WorkerInput worker;
    worker.pod = PodBuilder(name).Build();
    return worker;
  };
  WorkerInput blind = Stepped(0, 2000, 0);
  blind.marker_absence = "no agent";
  struct Case {
    const char* name;
    RunInput input;
    RunPhase phase;
  };
  RunInput ended_well = Input({Stepped(0, 2000, 3000)});
  ended_well.end = JobEnd::kSucceeded;
  RunInput gone = Input({});
  gone.spec.workers = 2;
  gone.end = JobEnd::kAbandoned;
  RunInput abandoned_failed = gone;
  abandoned_failed.workers.push_back(WorkerInput{.pod = PodBuilder("w").Ended(1, AtMs(1), AtMs(2)).Build()});
  RunInput unreported = Input({WorkerInput{.pod = PodBuilder("w").Ended(0, AtMs(1), AtMs(2)).Build()}});
  unreported.end = JobEnd::kUnreported;
  RunInput open_with_ended_pods =
      Input({WorkerInput{.pod = PodBuilder("w").On("n", AtMs(0)).Ended(1, AtMs(1), AtMs(2)).Build()}}, 5000);
  RunInput one_missing = Input({Stepped(0, 2000, 3000)});
  one_missing.spec.workers = 2;
  const Case cases[] = {
      {"no pod", Input({}), RunPhase::kPending},
      {"unscheduled", Input({pending("a")}), RunPhase::kPending},
      {"one scheduled", Input({Stepped(0, 2000, 0), pending("b")}), RunPhase::kStarting},
      {"started, no marker yet", Input({Stepped(0, 2000, 0)}, 10'000), RunPhase::kStarting},
      {"started, no marker for long", Input({Stepped(0, 2000, 0)}, 200'000), RunPhase::kRunning},
      {"nobody can see steps", Input({blind}, 3000), RunPhase::kRunning},
      {"one has stepped", Input({Stepped(0, 2000, 3000), Stepped(1, 2000, 0)}), RunPhase::kStarting},
      {"a worker is missing", one_missing, RunPhase::kStarting},
      {"job succeeded", ended_well, RunPhase::kSucceeded},
      {"abandoned without pods", gone, RunPhase::kUnknown},
      {"abandoned with failed pods", abandoned_failed, RunPhase::kFailed},
      {"the kind does not say", unreported, RunPhase::kSucceeded},
      {"the job retries", open_with_ended_pods, RunPhase::kStarting},
  };
  for (const Case& c : cases) EXPECT_EQ(ComputeRunStatus(c.input).phase, c.phase) << c.name;
}

TEST(ComputeRunStatus, SaysWhatHoldsTheStartUp) {
  WorkerInput stuck;
  stuck.pod = PodBuilder("w0").Unschedulable("0/2 nodes are available").Build();
  WorkerInput too = stuck;
  too.pod = PodBuilder("w1").Unschedulable("0/2 nodes are available").Build();
  const api::TrainingRunStatus status = ComputeRunStatus(Input({stuck, too}));
  const api::Condition& progressing = Condition(status, kProgressingCondition);
  EXPECT_EQ(progressing.status, api::ConditionStatus::kFalse);
  EXPECT_EQ(progressing.reason, "Unschedulable");
  EXPECT_NE(progressing.message.find("0/2 nodes"), std::string::npos);
  EXPECT_NE(progressing.message.find("1 more"), std::string::npos);
}

TEST(ComputeRunStatus, SaysWhyNoFirstStepWasSeen) {
  WorkerInput blind = Stepped(0, 2000, 0);
  blind.marker_absence = "no agent reports from node node-0";
  const api::Condition absent = Condition(ComputeRunStatus(Input({blind})), kFirstStepCondition);
  EXPECT_EQ(absent.reason, "NotVisible");
  EXPECT_NE(absent.message.find("no agent reports"), std::string::npos);
  const api::Condition silent = Condition(ComputeRunStatus(Input({Stepped(0, 2000, 0)}, 300'000)), kFirstStepCondition);
  EXPECT_EQ(silent.reason, "NoMarker");
  EXPECT_EQ(silent.status, api::ConditionStatus::kFalse);
  EXPECT_FALSE(Find(ComputeRunStatus(Input({Stepped(0, 2000, 0)}, 300'000)), StageName::kFirstStep)->end);
}

TEST(ComputeRunStatus, ExplainsAFailureByTheWorkerThatEndedFirst) {
  RunInput input =
      Input({WorkerInput{.pod = PodBuilder("w0").Ended(143, AtMs(1000), AtMs(9000)).Build()},
             WorkerInput{.pod = PodBuilder("w1").Ended(137, AtMs(1000), AtMs(5000), "OOMKilled").Build()}});
  input.end = JobEnd::kFailed;
  input.end_message = "Job has reached the specified backoff limit";
  const api::TrainingRunStatus status = ComputeRunStatus(input);
  EXPECT_EQ(Condition(status, api::kFailedCondition).reason, "OOMKilled");
  EXPECT_EQ(status.finished_at, AtMs(9000));
  // The pods are gone: what was known stays.
  RunInput later = Input({});
  later.before = status;
  later.end = JobEnd::kFailed;
  const api::TrainingRunStatus kept = ComputeRunStatus(later);
  EXPECT_EQ(Condition(kept, api::kFailedCondition).reason, "OOMKilled");
  EXPECT_EQ(kept.finished_at, status.finished_at);
}

TEST(ComputeRunStatus, NeverKnowsLessThanBefore) {
  RunInput input = Input({Stepped(0, 2100, 5000), Stepped(1, 3300, 5400)});
  const api::TrainingRunStatus full = ComputeRunStatus(input);
  struct Case {
    const char* name;
    bool has_pods, has_events, has_markers;
  };
  for (const Case& c : {Case{"restart", true, true, true}, Case{"events expired", true, false, true},
                        Case{"agent gone", true, true, false}, Case{"all but the pods", true, false, false},
                        Case{"pods gone", false, false, false}}) {
    RunInput again = input;
    again.before = full;
    if (!c.has_pods) again.workers.clear();
    for (WorkerInput& worker : again.workers) {
      if (!c.has_events) worker.events.clear();
      if (!c.has_markers) worker.markers.clear();
    }
    if (!c.has_pods) again.end = JobEnd::kSucceeded;
    const api::TrainingRunStatus status = ComputeRunStatus(again);
    api::TrainingRun want, got;
    want.status.stages = full.stages;
    want.status.workers = full.workers;
    got.status.stages = status.stages;
    got.status.workers = status.workers;
    nlohmann::json want_json = api::ToJson(want), got_json = api::ToJson(got);
    for (nlohmann::json* json : {&want_json, &got_json}) {
      for (nlohmann::json& stage : (*json)["status"]["stages"]) stage.erase("source");  // may become a coarser one
    }
    EXPECT_EQ(got_json, want_json) << c.name;
  }
}

TEST(ComputeRunStatus, IsTheSameWhenComputedTwice) {
  RunInput input = Input({Stepped(0, 2100, 5000), Stepped(1, 3300, 0)});
  const api::TrainingRunStatus once = ComputeRunStatus(input);
  input.before = once;
  input.now += seconds(1);
  EXPECT_TRUE(IsSameForReaders(once, ComputeRunStatus(input)));
}

TEST(ComputeRunStatus, KeepsWhatOthersWrote) {
  RunInput input = Input({Stepped(0, 2100, 5000)});
  input.before.slowdown = 1.25;
  input.before.incidents = {"slow-link"};
  const api::TrainingRunStatus status = ComputeRunStatus(input);
  EXPECT_EQ(status.slowdown, 1.25);
  EXPECT_EQ(status.incidents.size(), 1u);
}

TEST(ComputeRunStatus, TellsWhatBecameOfTheDependencies) {
  using Outcome = api::SnapshotOutcome;
  const struct {
    std::vector<std::vector<std::string>> markers;  // of each worker
    std::optional<Outcome> outcome;
  } cases[] = {
      {{{}, {}}, std::nullopt},
      {{{"dependencies_ready"}, {}}, std::nullopt},
      {{{"dependencies_restored"}, {"dependencies_restored"}}, Outcome::kRestored},
      {{{"dependencies_installed"}, {"dependencies_installed"}}, Outcome::kInstalled},
      {{{"dependencies_installed", "dependencies_recorded"}, {"dependencies_installed"}}, Outcome::kRecorded},
      {{{"dependencies_restored"}, {"dependencies_installed"}}, Outcome::kFellBack},
      // A container that was restarted finds what it had installed.
      {{{"dependencies_installed", "dependencies_restored"}, {"dependencies_installed"}}, Outcome::kInstalled},
  };
  for (const auto& c : cases) {
    RunInput input = Input({Stepped(0, 2100, 0), Stepped(1, 2100, 0)});
    for (size_t i = 0; i < 2; ++i) {
      for (const std::string& name : c.markers[i]) input.workers[i].markers.push_back({name, AtMs(3000)});
    }
    const api::TrainingRunStatus status = ComputeRunStatus(input);
    ASSERT_EQ(status.snapshot.has_value(), c.outcome.has_value());
    if (!c.outcome) continue;
    EXPECT_EQ(status.snapshot->outcome, *c.outcome);
    EXPECT_EQ(status.snapshot->reason.empty(), *c.outcome != Outcome::kFellBack) << status.snapshot->reason;
    // What was known stays when the pods are gone.
    input.before = status;
    input.workers.clear();
    EXPECT_EQ(ComputeRunStatus(input).snapshot->outcome, *c.outcome);
  }
}

TEST(ComputeRunStatus, TellsOfEachWorkerWhyItInstalled) {
  using Outcome = api::SnapshotOutcome;
  const std::string key(64, 'a');
  RunInput input = Input({Stepped(0, 2100, 0), Stepped(1, 2100, 0), Stepped(2, 2100, 0), Stepped(3, 2100, 0)});
  api::PodDependencies told{.key = key, .state = api::DependencyState::kRestored, .seconds = 0.4};
  input.workers[0].dependencies = told;
  told.state = api::DependencyState::kInstalling;
  told.cause = api::InstallCause::kNotMounted;
  told.reason = "the snapshot could not be mounted: no holder";
  input.workers[1].dependencies = told;
  input.workers[2].dependencies = told;
  told.state = api::DependencyState::kNotRecorded;
  told.cause = api::InstallCause::kNoSnapshot;
  told.reason = "no snapshot yet";
  told.not_recorded = "the lease is held by n1";
  told.seconds = 30;
  input.workers[3].dependencies = told;
  for (const size_t i : {1, 3}) input.workers[i].markers.push_back({"dependencies_installed", AtMs(3000)});
  const api::TrainingRunStatus status = ComputeRunStatus(input);
  EXPECT_EQ(status.workers[0].dependencies, (api::WorkerDependencies{Outcome::kRestored, "", 0.4}));
  EXPECT_EQ(status.workers[1].dependencies,
            (api::WorkerDependencies{Outcome::kFellBack, "the snapshot could not be mounted: no holder", 0.4}));
  EXPECT_EQ(status.workers[2].dependencies, std::nullopt) << "it may still install";
  EXPECT_EQ(
      status.workers[3].dependencies,
      (api::WorkerDependencies{Outcome::kInstalled, "no snapshot yet; not recorded: the lease is held by n1", 30}));
  ASSERT_TRUE(status.snapshot.has_value());
  EXPECT_EQ(status.snapshot->outcome, Outcome::kFellBack);
  EXPECT_EQ(status.snapshot->name, "deps-aaaaaaaaaaaaaaaa");
  EXPECT_EQ(status.snapshot->reason, "2 of 3 workers installed: the snapshot could not be mounted: no holder");

  // A wrapper that does not find in the mount what it should installs over it.
  input.workers[0].markers.push_back({"dependencies_installed", AtMs(3000)});
  EXPECT_EQ(ComputeRunStatus(input).workers[0].dependencies->outcome, Outcome::kFellBack);
  // What was known stays when the agents and the pods are gone.
  input.before = status;
  for (WorkerInput& worker : input.workers) worker.dependencies.reset(), worker.markers.clear();
  EXPECT_EQ(ComputeRunStatus(input).workers[1].dependencies, status.workers[1].dependencies);
  EXPECT_EQ(ComputeRunStatus(input).snapshot->reason, status.snapshot->reason);
}

TEST(ComputeRunStatus, TellsAboutTheMounts) {
  RunInput input = Input({Stepped(0, 2100, 5000), Stepped(1, 2100, 5000)});
  EXPECT_EQ(api::FindCondition(ComputeRunStatus(input).conditions, kCheckpointsMountedCondition), nullptr);
  for (WorkerInput& worker : input.workers) {
    api::PodMount mount;
    mount.volume = "paceline-checkpoint-model";
    mount.state = "Mounted";
    mount.read_bytes = 100;
    mount.written_bytes = 7;
    mount.first_read_at = AtMs(2500);
    mount.last_read_at = AtMs(3500);
    worker.mounts = {mount};
  }
  api::TrainingRunStatus status = ComputeRunStatus(input);
  EXPECT_EQ(Condition(status, kCheckpointsMountedCondition).status, api::ConditionStatus::kTrue);
  ASSERT_TRUE(status.bytes.has_value());
  EXPECT_EQ(status.bytes->checkpoint_read, 200);
  EXPECT_EQ(status.bytes->checkpoint_written, 14);
  ASSERT_NE(Find(status, StageName::kCheckpoint), nullptr);
  EXPECT_EQ(Find(status, StageName::kCheckpoint)->max_seconds, 1.0);
  EXPECT_EQ(Find(status, StageName::kCheckpoint)->source, StageSource::kMount);

  input.workers[1].mounts[0].restarts = 1;
  input.workers[1].mounts[0].message = "the mount process ended (signal 9)";
  status = ComputeRunStatus(input);
  EXPECT_EQ(Condition(status, kCheckpointsMountedCondition).reason, "MountRestarted");
  EXPECT_EQ(Condition(status, kCheckpointsMountedCondition)
                .message.find("pod w1 on node node-1: volume paceline-checkpoint-model: the mount process ended "
                              "(signal 9) (requests of that moment failed"),
            0u);
  input.workers[0].mounts[0].state = "Unknown";
  input.workers[1].mounts[0].restarts = 0;
  EXPECT_EQ(Condition(ComputeRunStatus(input), kCheckpointsMountedCondition).status, api::ConditionStatus::kTrue);

  input.before = status;
  input.workers.clear();
  status = ComputeRunStatus(input);
  EXPECT_EQ(status.bytes->checkpoint_read, 200) << "the pods are gone, what they read is not";
  EXPECT_EQ(Condition(status, kCheckpointsMountedCondition).reason, "MountRestarted");
}

TEST(ComputeRunStatus, BadSettingsAreAConditionAndTheRunGoesOn) {
  RunInput input = Input({Stepped(0, 2100, 5000)});
  input.settings_errors = {{"paceline.dev/trace", "must be true or false, not \"yes\""}};
  const api::TrainingRunStatus status = ComputeRunStatus(input);
  EXPECT_EQ(status.phase, RunPhase::kRunning);
  EXPECT_EQ(Condition(status, api::kConfigurationValidCondition).status, api::ConditionStatus::kFalse);
}

TEST(ComputeRunStatus, AThousandWorkersFitInTheObject) {
  std::vector<WorkerInput> workers;
  // The slowest to start its container, the slowest from there to its first step, and the last to step.
  for (int rank = 0; rank < 1000; ++rank) {
    const int64_t started = 2000 + (rank == 700 ? 4000 : 0), step = rank == 800 ? 9000 : rank == 900 ? 8900 : 6500;
    workers.push_back(Stepped(rank, started, step));
  }
  workers[900] = Stepped(900, 5000, 9500);
  const api::TrainingRunStatus status = ComputeRunStatus(Input(std::move(workers)));
  EXPECT_EQ(status.workers.size(), api::kMaxWorkerTimes);
  EXPECT_EQ(status.workers_omitted, static_cast<int64_t>(1000 - api::kMaxWorkerTimes));
  EXPECT_EQ(Find(status, StageName::kFirstStep)->workers, 1000);
  EXPECT_EQ(Find(status, StageName::kFirstStep)->slowest_pod, "w800");
  EXPECT_EQ(Find(status, StageName::kContainerStart)->slowest_pod, "w700");
  std::set<std::string> kept;
  for (const api::WorkerTimes& worker : status.workers) kept.insert(worker.pod);
  EXPECT_EQ(kept.size(), api::kMaxWorkerTimes);
  for (const char* pod : {"w0", "w200", "w700", "w800", "w900"}) EXPECT_EQ(kept.count(pod), 1u) << pod;
  EXPECT_EQ(kept.count("w400"), 0u);
  EXPECT_EQ(status.first_step_at, AtMs(9500));
  api::TrainingRun run;
  run.status = status;
  EXPECT_LT(api::ToJson(run).dump().size(), 512u * 1024);
  // After the pods are gone the summary still speaks of all of them.
  RunInput later = Input({});
  later.before = status;
  later.end = JobEnd::kSucceeded;
  later.before.workers.pop_back();  // the one that stepped last: an older operator has not kept it
  later.before.workers_omitted++;
  const api::TrainingRunStatus after = ComputeRunStatus(later);
  EXPECT_EQ(Find(after, StageName::kFirstStep)->workers, 1000);
  EXPECT_EQ(Find(after, StageName::kFirstStep)->slowest_pod, "w800");
  EXPECT_EQ(after.first_step_at, AtMs(9500));
  EXPECT_EQ(after.wall_seconds, 9.5);
  EXPECT_EQ(static_cast<int64_t>(after.workers.size()) + after.workers_omitted, 1000);
}

}  // namespace
}  // namespace paceline::operator_
