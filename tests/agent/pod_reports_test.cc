#include "agent/csi/pod_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/agent/memory_mounts.h"
#include "tests/agent/node_folders.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PodReportsTest : public ::testing::Test {
 protected:
  PodReportsTest() : host_({folders_.kubelet_dir(), folders_.state_dir()}) {}

  SeenVolume Volume(const std::string& uid, const std::string& name = "work") {
    const std::string target = folders_.AddVolume(uid, name);
    std::filesystem::create_directories(target);
    VolumeRecord record;
    record.spec.type = "scratch";
    record.spec.volume_id = "csi-" + uid + name;
    record.spec.target = *ParseTargetPath(folders_.kubelet_dir(), target);
    record.spec.pod = {"team-a", "pod-" + uid, uid};
    record.phase = VolumePhase::kPublished;
    record.published_at = clock_.WallNow();
    return {record, std::nullopt, std::nullopt};
  }

  static std::vector<std::string> Names(const PodReport& report) {
    std::vector<std::string> names;
    for (const StageLine& stage : report.stages) names.push_back(stage.name);
    return names;
  }

  NodeFolders folders_;
  MemoryMounts host_;
  fakes::SimulatedClock clock_;
  PodReports reports_{host_, clock_, {.max_pods = 3, .max_stages = 4}};
};

TEST_F(PodReportsTest, SeesStagesAsTheyAreWritten) {
  const SeenVolume volume = Volume("u1");
  EXPECT_TRUE(reports_.Look({volume})) << "a new pod is news";
  EXPECT_FALSE(reports_.Look({volume}));
  WriteTextFile(volume.record.spec.target.path + "/stage", "first_step 5\n");
  EXPECT_TRUE(reports_.Look({volume}));
  EXPECT_FALSE(reports_.Look({volume}));
  ASSERT_EQ(reports_.Reports().size(), 1u);
  EXPECT_EQ(reports_.Reports()[0].pod.name, "pod-u1");
  EXPECT_THAT(Names(reports_.Reports()[0]), ElementsAre("first_step"));
}

TEST_F(PodReportsTest, ReadsOnceMoreBeforeAVolumeGoes) {
  const SeenVolume volume = Volume("u1");
  reports_.Look({volume});
  WriteTextFile(volume.record.spec.target.path + "/stage", "first_step 5\nlast_step 6\n");
  reports_.LookLast(volume);
  std::filesystem::remove_all(volume.record.spec.target.path);
  EXPECT_TRUE(reports_.Look({})) << "the end of a pod is news";
  EXPECT_THAT(Names(reports_.Reports()[0]), ElementsAre("first_step", "last_step"));
  EXPECT_TRUE(reports_.Reports()[0].ended_at.has_value());
}

TEST_F(PodReportsTest, PutsTheVolumesOfAPodTogether) {
  const SeenVolume first = Volume("u1", "a");
  clock_.Advance(std::chrono::seconds(3));
  const SeenVolume second = Volume("u1", "b");
  WriteTextFile(second.record.spec.target.path + "/stage", "first_step 5\n");
  reports_.Look({second, first});
  ASSERT_EQ(reports_.Reports().size(), 1u);
  EXPECT_EQ(reports_.Reports()[0].volume_published_at, *first.record.published_at);
  EXPECT_THAT(Names(reports_.Reports()[0]), ElementsAre("first_step"));
}

TEST_F(PodReportsTest, TakesNothingFromStrangeFiles) {
  const SeenVolume pipe = Volume("u1"), folder = Volume("u2"), link = Volume("u3");
  ASSERT_EQ(mkfifo((pipe.record.spec.target.path + "/stage").c_str(), 0600), 0);
  std::filesystem::create_directory(folder.record.spec.target.path + "/stage");
  WriteTextFile(folders_.root() + "/secret", "first_step 5\n");
  std::filesystem::create_symlink(folders_.root() + "/secret", link.record.spec.target.path + "/stage");
  reports_.Look({pipe, folder, link});
  for (const PodReport& report : reports_.Reports()) EXPECT_THAT(report.stages, IsEmpty()) << report.pod.uid;
}

TEST_F(PodReportsTest, ReadsTheBeginningOfAHugeFile) {
  const SeenVolume volume = Volume("u1");
  WriteTextFile(volume.record.spec.target.path + "/stage", "a 1\n" + std::string(2 << 20, 'x') + "\nb 2\n");
  reports_.Look({volume});
  EXPECT_THAT(Names(reports_.Reports()[0]), ElementsAre("a"));
}

TEST_F(PodReportsTest, KeepsAtMostSoManyStages) {
  const SeenVolume volume = Volume("u1");
  WriteTextFile(volume.record.spec.target.path + "/stage", "a 1\nb 2\nc 3\nd 4\ne 5\n");
  reports_.Look({volume});
  EXPECT_THAT(Names(reports_.Reports()[0]), ElementsAre("a", "b", "c", "d"));
}

TEST_F(PodReportsTest, TellsWhenTheReadingAtTheStartIsOver) {
  SeenVolume volume = Volume("u1");
  volume.figures = MountFigures{.state = "Mounted"};
  EXPECT_TRUE(reports_.Look({volume}));
  const auto read = [&](int64_t bytes) {
    volume.figures->read_bytes = bytes;
    if (!volume.figures->first_read_at) volume.figures->first_read_at = clock_.WallNow();
    volume.figures->last_read_at = clock_.WallNow();
  };
  const WallTime began = clock_.WallNow();
  read(10);
  EXPECT_FALSE(reports_.Look({volume})) << "the rest is still to come";
  clock_.Advance(std::chrono::seconds(4));
  read(20);
  EXPECT_FALSE(reports_.Look({volume}));
  const WallTime ended = clock_.WallNow();
  clock_.Advance(std::chrono::seconds(5));
  EXPECT_TRUE(reports_.Look({volume}));
  read(30);
  EXPECT_FALSE(reports_.Look({volume})) << "later reads are not the start's";
  const MountReport report = reports_.Reports().at(0).mounts.at(0);
  EXPECT_TRUE(report.has_read_start);
  EXPECT_EQ(report.figures.first_read_at, began);
  EXPECT_EQ(report.figures.last_read_at, ended);
  EXPECT_EQ(report.figures.read_bytes, 30);
}

TEST_F(PodReportsTest, DependenciesGoForwardOnly) {
  using State = api::DependencyState;
  SeenVolume volume = Volume("u1");
  volume.dependencies = api::PodDependencies{.key = std::string(64, 'a'), .state = State::kInstalling};
  EXPECT_TRUE(reports_.Look({volume}));
  EXPECT_FALSE(reports_.Look({volume}));
  volume.dependencies->state = State::kRecording;
  EXPECT_TRUE(reports_.Look({volume})) << "a new state is news";
  reports_.LookLast(volume);
  EXPECT_TRUE(reports_.Look({}));
  api::PodDependencies end = *volume.dependencies;
  end.state = State::kRecorded;
  end.digest = "sha256:1";
  reports_.SeeDependencies(volume.record.spec.pod, end);  // the recording outlasts the pod
  EXPECT_EQ(reports_.Reports()[0].dependencies, end);
  EXPECT_TRUE(reports_.Look({volume})) << "the pod is there again";
  EXPECT_EQ(reports_.Reports()[0].dependencies, end) << "an older look came late";
  reports_.SeeDependencies({"team-a", "other", "u9"}, end);
  EXPECT_EQ(reports_.Reports().size(), 1u);
}

TEST_F(PodReportsTest, KeepsWhatADeadMountHadRead) {
  SeenVolume volume = Volume("u1");
  volume.figures = MountFigures{.state = "Mounted", .read_bytes = 7, .first_read_at = clock_.WallNow()};
  volume.figures->last_read_at = clock_.WallNow();
  reports_.Look({volume});
  reports_.LookLast(volume);
  EXPECT_TRUE(reports_.Reports()[0].mounts[0].has_read_start) << "there is no more to come";
  volume.figures = MountFigures{.state = "Restarting", .message = "died", .restarts = 1};
  EXPECT_TRUE(reports_.Look({volume}));
  EXPECT_FALSE(reports_.Look({volume}));
  const MountReport report = reports_.Reports()[0].mounts[0];
  EXPECT_EQ(report.figures.state, "Restarting");
  EXPECT_EQ(report.figures.message, "died");
  EXPECT_EQ(report.figures.read_bytes, 7);
  EXPECT_TRUE(report.figures.last_read_at.has_value());
}

TEST_F(PodReportsTest, ForgetsEndedPodsFirstAndInTime) {
  const SeenVolume old = Volume("u1");
  reports_.Look({old});
  reports_.Look({});  // u1 ends
  clock_.Advance(std::chrono::minutes(1));
  const std::vector<SeenVolume> running = {Volume("u2"), Volume("u3"), Volume("u4")};
  reports_.Look(running);
  EXPECT_EQ(reports_.Reports().size(), 3u) << "over the limit the ended pod goes";
  reports_.Look({});
  clock_.Advance(std::chrono::minutes(29));
  reports_.Look({});
  EXPECT_EQ(reports_.Reports().size(), 3u);
  clock_.Advance(std::chrono::minutes(2));
  EXPECT_TRUE(reports_.Look({}));
  EXPECT_EQ(reports_.Reports().size(), 0u);
}

}  // namespace
}  // namespace paceline::agent
