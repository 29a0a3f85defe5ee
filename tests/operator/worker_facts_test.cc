#include "operator/training_run/worker_facts.h"

#include <gtest/gtest.h>

#include "operator/training_run/explain.h"
#include "tests/operator/pod_builder.h"

namespace paceline::operator_ {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Moment Start() { return SecondMoment(AtMs(0), std::nullopt, StageSource::kPodCondition); }

WorkerInput FullWorker() {
  WorkerInput worker;
  worker.pod = PodBuilder("pod").On("n1", AtMs(400)).Started(AtMs(2700)).Build();
  worker.events = {
      ScheduledEvent(AtMs(412)), KubeletEvent("Pulling", "Pulling image \"image\"", AtMs(1000)),
      KubeletEvent("Pulled",
                   "Successfully pulled image \"image\" in 1.2s (1.2s including waiting). Image size: 5 bytes.",
                   AtMs(2200)),
      KubeletEvent("Created", "Created container: main", AtMs(2600)),
      KubeletEvent("Started", "Started container main", AtMs(2745))};
  worker.markers = {{"first_step", AtMs(5123)}};
  return worker;
}

TEST(EventInstant, IsReadFromTheNameOnlyWhereItFitsTheEvent) {
  struct Case {
    const char* name;
    std::string event_name;
    WallTime first_time;
    std::optional<WallTime> want;
  };
  const WallTime at = AtMs(1234) + std::chrono::nanoseconds(567);
  const std::string hex = fmt::format("{:x}", at.time_since_epoch().count());
  const Case cases[] = {
      {"kubelet", "pod-0." + hex, AtMs(1000), at},
      {"pod with dots", "a.b.c." + hex, AtMs(1000), at},
      {"another second", "pod." + hex, AtMs(2000), std::nullopt},
      {"no time at all", "pod." + hex, kube::kNoTime, std::nullopt},
      {"uuid", "0b5d5a0e-4a1c-4f6e-9a59-cc6f0a1e2b11", AtMs(1000), std::nullopt},
      {"not hex", "pod.18z", AtMs(1000), std::nullopt},
      {"nothing after the dot", "pod.", AtMs(1000), std::nullopt},
      {"too long", "pod.ffffffffffffffffff", AtMs(1000), std::nullopt},
      {"beyond the clock", "pod.ffffffffffffffff", AtMs(1000), std::nullopt},
  };
  for (const Case& c : cases) {
    kube::EventView event;
    event.meta.name = c.event_name;
    event.first_time = c.first_time;
    EXPECT_EQ(EventInstant(event), c.want) << c.name;
  }
}

TEST(ImageTime, AddsUpPullsOnceEach) {
  const auto pulled = [](std::string_view container, std::string_view message, int64_t at_ms) {
    return KubeletEvent("Pulled", message, AtMs(at_ms), container);
  };
  const std::string_view there = "Container image \"x\" already present on machine";
  struct Case {
    const char* name;
    std::vector<EventPointer> events;
    std::optional<Duration> want;
  };
  const Case cases[] = {
      {"none yet", {}, std::nullopt},
      {"one of two", {pulled("main", there, 100)}, std::nullopt},
      {"both there", {pulled("main", there, 100), pulled("side", there, 110)}, Duration::zero()},
      {"one pulled",
       {pulled("main", "Successfully pulled image \"x\" in 900ms (900ms including waiting)", 1000),
        pulled("side", there, 1100)},
       Duration(milliseconds(900))},
      {"with waiting",
       {pulled("main", "Successfully pulled image \"x\" in 100ms (2.5s including waiting). Image size: 1 bytes.", 9000),
        pulled("side", there, 9100)},
       Duration(milliseconds(2500))},
      {"overlapping",
       {pulled("main", "Successfully pulled image \"x\" in 2s (2s including waiting)", 3000),
        pulled("side", "Successfully pulled image \"y\" in 2s (2s including waiting)", 4000)},
       Duration(seconds(3))},
      {"one after the other",
       {pulled("main", "Successfully pulled image \"x\" in 1s", 1000),
        pulled("side", "Successfully pulled image \"y\" in 1m1s", 90'000)},
       Duration(seconds(62))},
      {"text of another version, with Pulling",
       {KubeletEvent("Pulling", "", AtMs(500), "main"), pulled("main", "Pulled it", 1500), pulled("side", there, 1600)},
       Duration(seconds(1))},
      {"text of another version, without Pulling",
       {pulled("main", "Pulled it", 1500), pulled("side", there, 1600)},
       std::nullopt},
  };
  for (const Case& c : cases) {
    WorkerInput worker;
    PodBuilder pod("pod");
    pod.view().spec.containers.push_back({"side", "y", ""});
    worker.pod = pod.Build();
    worker.events = c.events;
    EXPECT_EQ(ImageTime(worker), c.want) << c.name;
  }
}

TEST(MomentsOf, GiveStagesThatAddUpToTheFirstStep) {
  const auto spans = ComputeStages(MomentsOf(FullWorker(), Start(), nullptr));
  const std::pair<StageName, int64_t> want[] = {{StageName::kQueued, 0},
                                                {StageName::kScheduling, 412},
                                                {StageName::kImage, 1200},
                                                {StageName::kContainerStart, 1133},
                                                {StageName::kFirstStep, 2378}};
  ASSERT_EQ(spans.size(), std::size(want));
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].stage, want[i].first);
    EXPECT_EQ(*spans[i].end - spans[i].begin, milliseconds(want[i].second)) << api::StageNameText(spans[i].stage);
  }
  EXPECT_EQ(StartupTime(spans), Duration(milliseconds(5123)));
}

TEST(MomentsOf, TakeTheFirstRunOfAContainerThatStartedAgain) {
  WorkerInput worker = FullWorker();
  PodBuilder pod("pod");
  pod.On("n1", AtMs(400)).Started(AtMs(60'000));
  pod.view().status.containers[0].restart_count = 3;
  pod.view().status.containers[0].last_state.terminated =
      kube::ContainerTerminated{1, 0, "Error", "", AtMs(40'000), AtMs(50'000)};
  worker.pod = pod.Build();
  const WorkerMoments moments = MomentsOf(worker, Start(), nullptr);
  EXPECT_EQ(moments.end(StageName::kContainerStart)->best, AtMs(2745));
  worker.events.clear();
  EXPECT_EQ(MomentsOf(worker, Start(), nullptr).end(StageName::kContainerStart)->best, AtMs(40'000));
}

TEST(MomentsOf, IgnoreMarkersFromBeforeThePod) {
  WorkerInput worker = FullWorker();
  worker.markers = {{"first_step", WallTime{}},
                    {"first_step", AtMs(-5000)},
                    {"unknown", AtMs(4000)},
                    {"checkpoint_loaded", AtMs(4500)}};
  const WorkerMoments moments = MomentsOf(worker, Start(), nullptr);
  EXPECT_FALSE(moments.end(StageName::kFirstStep));
  EXPECT_EQ(moments.end(StageName::kCheckpoint)->best, AtMs(4500));
}

TEST(MomentsOf, TakeTheReadingOfAllMountsTogether) {
  WorkerInput worker = FullWorker();
  api::PodMount models, data, written, stale;
  models.first_read_at = AtMs(3000);
  models.last_read_at = AtMs(3700);
  data.first_read_at = AtMs(3200);
  data.last_read_at = AtMs(4000);
  written.written_bytes = 5;
  stale.first_read_at = stale.last_read_at = AtMs(-100'000);
  worker.mounts = {models, data, written, stale};
  const WorkerMoments moments = MomentsOf(worker, Start(), nullptr);
  EXPECT_EQ(moments.checkpoint_time, Duration(std::chrono::milliseconds(1000)));
  EXPECT_FALSE(moments.end(StageName::kCheckpoint));

  // The agent forgets a pod that has ended; the run does not.
  api::WorkerTimes reported{0, "pod", "n1", {}};
  for (const StageSpan& span : ComputeStages(moments)) reported.stages.push_back({span.stage, span.begin, span.end});
  worker.mounts.clear();
  EXPECT_EQ(MomentsOf(worker, Start(), &reported).checkpoint_time, moments.checkpoint_time);
  worker.mounts = {written};
  EXPECT_FALSE(MomentsOf(worker, Start(), nullptr).checkpoint_time);
}

TEST(MomentsOf, KeepWhatWasReportedWhenEventsHaveExpired) {
  const auto before = ComputeStages(MomentsOf(FullWorker(), Start(), nullptr));
  api::WorkerTimes reported{0, "pod", "n1", {}};
  for (const StageSpan& span : before) reported.stages.push_back({span.stage, span.begin, span.end});
  WorkerInput worker = FullWorker();
  worker.events.clear();
  worker.markers.clear();
  const auto after = ComputeStages(MomentsOf(worker, Start(), &reported));
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].begin, before[i].begin) << api::StageNameText(after[i].stage);
    EXPECT_EQ(after[i].end, before[i].end) << api::StageNameText(after[i].stage);
  }
  // A pod that came back under the same name is another one.
  worker.pod = PodBuilder("pod", AtMs(100'000)).Build();
  const WorkerMoments other = MomentsOf(worker, Start(), &reported);
  EXPECT_FALSE(other.end(StageName::kFirstStep));
  EXPECT_FALSE(other.image_time);
}

TEST(WhyNotStarted, NamesWhatHoldsThePodUp) {
  struct Case {
    const char* name;
    std::shared_ptr<const kube::PodView> pod;
    std::vector<EventPointer> events;
    std::string reason;  // empty: nothing to say
    std::string in_message;
  };
  const auto failed_mount = KubeletEvent("FailedMount", "MountVolume.SetUp failed", AtMs(900), "");
  const Case cases[] = {
      {"just made", PodBuilder("p").Build(), {}, "", ""},
      {"unschedulable",
       PodBuilder("p").Unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.").Build(),
       {},
       "Unschedulable",
       "Insufficient nvidia.com/gpu"},
      {"pull",
       PodBuilder("p").On("n", AtMs(1)).Waiting("ImagePullBackOff", "Back-off pulling image \"x\"").Build(),
       {},
       "ImagePullBackOff",
       "pull secret"},
      {"creating", PodBuilder("p").On("n", AtMs(1)).Waiting("ContainerCreating", "").Build(), {}, "", ""},
      {"mount",
       PodBuilder("p").On("n", AtMs(1)).Waiting("ContainerCreating", "").Build(),
       {failed_mount},
       "FailedMount",
       "SetUp failed"},
      {"running", PodBuilder("p").On("n", AtMs(1)).Started(AtMs(9)).Build(), {failed_mount}, "", ""},
  };
  for (const Case& c : cases) {
    const auto why = WhyNotStarted(*c.pod, c.events);
    EXPECT_EQ(why ? why->reason : "", c.reason) << c.name;
    if (why) {
      EXPECT_NE(why->message.find(c.in_message), std::string::npos) << c.name << ": " << why->message;
    }
  }
}

TEST(WhyFailed, TellsTheCauseNotTheConsequence) {
  struct Case {
    const char* name;
    std::shared_ptr<const kube::PodView> pod;
    std::string reason;
    std::string in_message;
  };
  PodBuilder evicted("p");
  evicted.On("n1", AtMs(1)).Ended(137, AtMs(2), AtMs(3));
  evicted.view().status.conditions.push_back(
      {"DisruptionTarget", "True", "DeletionByTaintManager", "taint", kube::kNoTime});
  PodBuilder two("p");
  two.Ended(143, AtMs(2), AtMs(3));
  kube::ContainerStatus killed;
  killed.name = "side";
  killed.state.terminated = kube::ContainerTerminated{137, 0, "OOMKilled", "", AtMs(2), AtMs(3)};
  two.view().status.containers.push_back(killed);
  PodBuilder bare("p");
  bare.view().status.phase = "Failed";
  PodBuilder over_disk("p");
  over_disk.view().status.phase = "Failed";
  over_disk.view().status.reason = "Evicted";
  over_disk.view().status.message = "The node was low on resource: ephemeral-storage";
  const Case cases[] = {
      {"fine", PodBuilder("p").Ended(0, AtMs(1), AtMs(2)).Build(), "", ""},
      {"exit code", PodBuilder("p").Ended(3, AtMs(1), AtMs(2)).Build(), "ContainerFailed", "exit code 3"},
      {"signal", PodBuilder("p").Ended(139, AtMs(1), AtMs(2)).Build(), "ContainerFailed", "signal 11"},
      {"memory", PodBuilder("p").Ended(137, AtMs(1), AtMs(2), "OOMKilled").Build(), "OOMKilled", "memory"},
      {"the other container's memory", two.Build(), "OOMKilled", "side"},
      {"disruption", evicted.Build(), "DeletionByTaintManager", "node n1"},
      {"evicted", over_disk.Build(), "Evicted", "ephemeral-storage"},
      {"nothing said", bare.Build(), "PodFailed", "p"},
  };
  for (const Case& c : cases) {
    const auto why = WhyFailed(*c.pod);
    EXPECT_EQ(why ? why->reason : "", c.reason) << c.name;
    if (why) {
      EXPECT_NE(why->message.find(c.in_message), std::string::npos) << c.name << ": " << why->message;
    }
  }
}

TEST(MomentsOf, TakesWhatTheProgramSaysBeforeWhatItsCollectivesShow) {
  WorkerInput worker = FullWorker();
  worker.markers = {{"first_step", AtMs(4000), StageSource::kTracer},
                    {"communicator_ready", AtMs(3500), StageSource::kTracer},
                    {"first_step", AtMs(5123), StageSource::kMarker}};
  const WorkerMoments moments = MomentsOf(worker, Start(), nullptr);
  EXPECT_EQ(moments.end(StageName::kFirstStep)->best, AtMs(5123));
  EXPECT_EQ(moments.end(StageName::kFirstStep)->source, StageSource::kMarker);
  EXPECT_EQ(moments.end(StageName::kCommunicatorReady)->best, AtMs(3500));
  EXPECT_EQ(moments.end(StageName::kCommunicatorReady)->source, StageSource::kTracer);
}

}  // namespace
}  // namespace paceline::operator_
