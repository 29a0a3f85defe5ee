#include "agent/csi/hdfs_volume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/csi/volume_publisher.h"
#include "tests/agent/fake_holder.h"
#include "tests/agent/memory_mounts.h"
#include "tests/agent/node_folders.h"
#include "tests/fakes/capture_log.h"

namespace paceline::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Context = std::map<std::string, std::string>;

const std::string kPodUid = "0d4e1f0a-94b1-4b3b-8a42-77c2e9b5a001";
const std::string kOtherUid = "0d4e1f0a-94b1-4b3b-8a42-77c2e9b5a002";

class HdfsVolumeTest : public ::testing::Test {
 protected:
  HdfsVolumeTest() { StartAgent(); }

  void StartAgent() {
    std::vector<std::unique_ptr<VolumeType>> types;
    types.push_back(NewHdfsVolume({.rules = {}, .mount_limit = std::chrono::milliseconds(200)},
                                  std::make_unique<FakeHolderClient>(holder_), host_, clock_, log_.logger()));
    publisher_ = std::make_unique<VolumePublisher>(
        VolumePublisher::Options{folders_.kubelet_dir(), folders_.state_dir(), {}}, host_, std::move(types), clock_);
    const Result<RecoveryReport> report = publisher_->Recover(Deadline::Infinite());
    ASSERT_TRUE(report.ok());
    problems_ = report->problems;
  }

  PublishRequest Request(const std::string& id = "csi-1", const std::string& uid = kPodUid) {
    PublishRequest request;
    request.volume_id = id;
    request.target_path = folders_.AddVolume(uid, "checkpoints");
    request.context = {{"type", "hdfs"}, {"uri", "hdfs://h/a"}, {"csi.storage.k8s.io/pod.uid", uid}};
    return request;
  }
  PublishRequest PersistentRequest(const std::string& uid) {
    PublishRequest request = Request("models", uid);
    request.context["csi.storage.k8s.io/ephemeral"] = "false";
    return request;
  }
  Status Publish(const PublishRequest& request) { return publisher_->Publish(request, Deadline::Infinite()); }
  Status Unpublish(const PublishRequest& request) {
    return publisher_->Unpublish(request.volume_id, request.target_path, Deadline::Infinite());
  }
  std::string DeviceAt(const std::string& path) {
    const auto mount = host_.MountAt(path).value_or(std::nullopt);
    return mount ? mount->device : "";
  }
  std::vector<SeenVolume> Look() { return publisher_->Look(Deadline::Infinite()); }

  NodeFolders folders_;
  MemoryMounts host_{{folders_.kubelet_dir(), folders_.state_dir()}};
  FakeHolder holder_{host_, folders_.kubelet_dir() + "/plugins/csi.paceline.dev/mounts"};
  RealClock clock_;
  fakes::CaptureLog log_;
  std::unique_ptr<VolumePublisher> publisher_;
  std::vector<std::string> problems_;
};

TEST_F(HdfsVolumeTest, ShowsTheHoldersMountAtTheTarget) {
  const PublishRequest request = Request();
  ASSERT_EQ(Publish(request), Status());
  EXPECT_EQ(DeviceAt(request.target_path), "0:51");
  ASSERT_EQ(Publish(request), Status()) << "kubelet repeats the call";
  EXPECT_EQ(host_.mount_count(), 2u);
  EXPECT_EQ(Unpublish(request), Status());
  EXPECT_EQ(Unpublish(request), Status());
  EXPECT_EQ(host_.mount_count(), 0u);
  EXPECT_TRUE(holder_.held.empty());
  EXPECT_FALSE(std::filesystem::exists(request.target_path));
  EXPECT_EQ(folders_.LeftInState(), "");
}

TEST_F(HdfsVolumeTest, FindsItsMountsAgain) {
  const PublishRequest request = Request();
  ASSERT_EQ(Publish(request), Status());
  StartAgent();
  EXPECT_THAT(problems_, ElementsAre());
  EXPECT_EQ(DeviceAt(request.target_path), "0:51") << "untouched";
  folders_.RemovePod(kPodUid);
  StartAgent();
  EXPECT_EQ(host_.mount_count(), 0u) << "the pod went while no agent ran";
  EXPECT_TRUE(holder_.held.empty());
}

TEST_F(HdfsVolumeTest, TellsThePodWhyItCannotMount) {
  holder_.next_state = HeldState::kFailed;
  holder_.log = {"starting", "2026 error paceline-hdfs-mount: mount failed error=\"no such host\"", "bye"};
  const Status status = Publish(Request());
  EXPECT_EQ(status.message(), "cannot mount: exit code 1: no such host");
  EXPECT_TRUE(holder_.held.empty()) << "nothing is left behind";
  EXPECT_EQ(folders_.LeftInState(), "");
}

TEST_F(HdfsVolumeTest, WaitsForAMountOnlySoLong) {
  holder_.next_state = HeldState::kStarting;
  const Status status = Publish(Request());
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("NameNode"));
}

TEST_F(HdfsVolumeTest, SaysThatThereIsNoHolder) {
  holder_.is_there = false;
  EXPECT_EQ(Publish(Request()).code(), StatusCode::kUnavailable);
  EXPECT_EQ(Unpublish(Request("csi-of-another-type")), Status()) << "no other volume waits for a holder";
}

TEST_F(HdfsVolumeTest, PutsANewMountOverTheDeadOne) {
  const PublishRequest request = Request();
  ASSERT_EQ(Publish(request), Status());
  ASSERT_EQ(Look().at(0).figures->state, "Mounted");
  holder_.DieAndComeBack(HdfsMountName("csi-1"));
  const MountFigures figures = *Look().at(0).figures;
  EXPECT_EQ(DeviceAt(request.target_path), "0:52");
  EXPECT_EQ(host_.mount_count(), 3u) << "over it, not in its place";
  EXPECT_EQ(figures.restarts, 1);
  EXPECT_THAT(figures.message, HasSubstr("signal 9"));
  EXPECT_THAT(figures.message, Not(HasSubstr("not mended")));
  holder_.DieAndComeBack(HdfsMountName("csi-1"));
  EXPECT_EQ(Publish(request), Status());
  EXPECT_EQ(DeviceAt(request.target_path), "0:53") << "kubelet's repeated call mends too";
  EXPECT_EQ(Unpublish(request), Status());
  EXPECT_EQ(host_.mount_count(), 0u);
}

TEST_F(HdfsVolumeTest, StartsAgainWhatTheHolderLost) {
  ASSERT_EQ(Publish(Request()), Status());
  holder_.Stop(HdfsMountName("csi-1")).status().IgnoreError();
  EXPECT_EQ(Look().at(0).figures->state, "Failed");
  EXPECT_EQ(Look().at(0).figures->state, "Mounted");
}

TEST_F(HdfsVolumeTest, NeedsTheSecretFromKubelet) {
  PublishRequest request = Request();
  request.secrets = {{"token", "secret-bytes"}};
  ASSERT_EQ(Publish(request), Status());
  EXPECT_EQ(holder_.orders.back().files->at("token"), "secret-bytes");
  for (const auto& file : std::filesystem::recursive_directory_iterator(folders_.state_dir())) {
    if (file.is_regular_file()) EXPECT_THAT(ReadTextFile(file.path()), Not(HasSubstr("secret-bytes")));
  }
  const size_t orders = holder_.orders.size();
  StartAgent();
  EXPECT_THAT(problems_, ElementsAre());
  EXPECT_EQ(holder_.orders.size(), orders) << "the running mount has its Secret";
  holder_.Stop(HdfsMountName("csi-1")).status().IgnoreError();
  EXPECT_THAT(Look().at(0).figures->message, HasSubstr("Secret"));
  EXPECT_TRUE(holder_.held.empty()) << "never without it";
  request.secrets = {{"token", "renewed"}};
  EXPECT_EQ(Publish(request), Status());
  EXPECT_EQ(holder_.orders.back().files->at("token"), "renewed");
}

TEST_F(HdfsVolumeTest, GivesEachPodOfAPersistentVolumeItsOwnMount) {
  const PublishRequest one = PersistentRequest(kPodUid), other = PersistentRequest(kOtherUid);
  ASSERT_EQ(Publish(one), Status());
  ASSERT_EQ(Publish(other), Status());
  EXPECT_EQ(holder_.held.size(), 2u);
  EXPECT_EQ(Unpublish(one), Status());
  EXPECT_EQ(DeviceAt(one.target_path), "");
  EXPECT_EQ(DeviceAt(other.target_path), "0:52");
  EXPECT_EQ(Unpublish(one), Status());
  EXPECT_EQ(Unpublish(other), Status());
  EXPECT_TRUE(holder_.held.empty());
  EXPECT_EQ(folders_.LeftInState(), "");
}

TEST_F(HdfsVolumeTest, StopsWhatBelongsToNobody) {
  ASSERT_EQ(Publish(Request()), Status());
  MountOrder stray{
      .name = "hdfs-stray", .owner = "csi-gone", .program = "p", .arguments = {}, .environment = {}, .files = {}};
  ASSERT_TRUE(holder_.Start(stray).ok());
  MountOrder foreign = stray;
  foreign.name = "image-1";
  ASSERT_TRUE(holder_.Start(foreign).ok());
  StartAgent();
  EXPECT_EQ(holder_.held.count("hdfs-stray"), 0u);
  EXPECT_EQ(holder_.held.count("image-1"), 1u);
  EXPECT_EQ(holder_.held.count(HdfsMountName("csi-1")), 1u);
}

TEST_F(HdfsVolumeTest, LeavesAMountThatIsInUseThoughItsRecordIsLost) {
  ASSERT_EQ(Publish(Request()), Status());
  std::filesystem::remove_all(folders_.state_dir() + "/volumes");
  StartAgent();
  EXPECT_EQ(holder_.held.size(), 1u);
}

TEST_F(HdfsVolumeTest, ReadsWhatTheMountCounts) {
  ASSERT_EQ(Publish(Request()), Status());
  holder_.stats = R"({"readBytes": 12, "writtenBytes": 34, "firstReadAt": "2026-01-02T03:04:05.000000Z",
                      "startReadEndAt": "2026-01-02T03:04:06.500000Z"})";
  const MountFigures figures = *Look().at(0).figures;
  EXPECT_EQ(figures.read_bytes, 12);
  EXPECT_EQ(figures.written_bytes, 34);
  EXPECT_EQ(*figures.last_read_at - *figures.first_read_at, std::chrono::milliseconds(1500));
  for (const char* damaged : {"", "{", "[]", R"({"readBytes": "x"})", "error: unknown command"}) {
    holder_.stats = damaged;
    EXPECT_EQ(Look().at(0).figures->state, "Mounted") << damaged;
  }
}

TEST(HolderAnswer, SurvivesDamage) {
  const std::string whole =
      R"({"version":1,"ok":true,"mount":{"name":"a","owner":"o","state":"Mounted","mountPoint":"/m","restarts":2,)"
      R"("lastExit":{"at":"x","text":"signal 9"},"log":["l"],"new":1}})";
  const auto mount = ParseHolderAnswer(whole);
  ASSERT_TRUE(mount.ok()) << mount.status().ToString();
  EXPECT_EQ((*mount)->state, HeldState::kMounted);
  EXPECT_EQ((*mount)->last_exit, "signal 9");
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(ParseHolderAnswer(whole.substr(0, i)).status().code(), StatusCode::kDataLoss) << i;
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x11);
    (void)ParseHolderAnswer(damaged).ok();
  }
  const Status refused = ParseHolderAnswer(R"({"ok":false,"code":"Aborted","message":"busy"})").status();
  EXPECT_EQ(refused.code(), StatusCode::kAborted);
  EXPECT_THAT(refused.message(), HasSubstr("busy"));
  EXPECT_FALSE(ParseHolderAnswer(R"({"ok":true,"mount":null})").value().has_value());
}

}  // namespace
}  // namespace paceline::agent
