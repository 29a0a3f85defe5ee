#include "agent/csi/volume_publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "agent/csi/scratch_volume.h"
#include "tests/agent/memory_mounts.h"
#include "tests/agent/node_folders.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::agent {
namespace {

using ::testing::HasSubstr;
using Context = std::map<std::string, std::string>;

const std::string kUid = "0d4e1f0a-94b1-4b3b-8a42-77c2e9b5a001";
const std::string kVolume = "csi-4f2c9d";

// One node with one agent on it, which can be killed and started again.
class Node {
 public:
  Node() : host_({folders_.kubelet_dir(), folders_.state_dir()}) { StartAgent(); }

  void StartAgent() {
    std::vector<std::unique_ptr<VolumeType>> types;
    types.push_back(NewScratchVolume(folders_.state_dir(), host_));
    publisher_ = std::make_unique<VolumePublisher>(
        VolumePublisher::Options{folders_.kubelet_dir(), folders_.state_dir()}, host_, std::move(types), clock_);
  }

  PublishRequest Request(Context attributes, const std::string& volume_id = kVolume, const std::string& uid = kUid) {
    PublishRequest request;
    request.volume_id = volume_id;
    request.target_path = folders_.AddVolume(uid, "work");
    request.context = std::move(attributes);
    request.context["csi.storage.k8s.io/pod.uid"] = uid;
    request.context["csi.storage.k8s.io/pod.name"] = "trainer-0";
    request.context["csi.storage.k8s.io/pod.namespace"] = "team-a";
    request.context["csi.storage.k8s.io/ephemeral"] = "true";
    return request;
  }

  Status Publish(const PublishRequest& request) { return publisher_->Publish(request, Deadline::Infinite()); }
  Status Unpublish(const PublishRequest& request) {
    return publisher_->Unpublish(request.volume_id, request.target_path, Deadline::Infinite());
  }
  Status Recover() { return publisher_->Recover(Deadline::Infinite()).status(); }

  // Nothing of any volume is left on the node once the trash is out.
  void ExpectClean(const std::string& target) {
    EXPECT_TRUE(publisher_->CleanUp(Deadline::Infinite()).ok());
    EXPECT_EQ(host_.mount_count(), 0u);
    EXPECT_FALSE(std::filesystem::exists(target));
    EXPECT_EQ(folders_.LeftInState(), "");
    EXPECT_TRUE(publisher_->Volumes().empty());
  }

  NodeFolders folders_;
  MemoryMounts host_;
  fakes::SimulatedClock clock_;
  std::unique_ptr<VolumePublisher> publisher_;
};

TEST(VolumePublisher, PublishesAndRemembers) {
  Node node;
  ASSERT_TRUE(node.Recover().ok());
  PublishRequest request = node.Request({{"type", "scratch"}, {"medium", "Memory"}, {"size", "1Mi"}});
  ASSERT_EQ(node.Publish(request), Status());
  node.clock_.Advance(std::chrono::seconds(5));
  ASSERT_EQ(node.Publish(request), Status()) << "kubelet repeats the call";

  EXPECT_EQ(node.host_.mount_count(), 1u);
  std::vector<VolumeRecord> volumes = node.publisher_->Volumes();
  ASSERT_EQ(volumes.size(), 1u);
  EXPECT_EQ(volumes[0].phase, VolumePhase::kPublished);
  EXPECT_EQ(volumes[0].spec.pod, (PodIdentity{"team-a", "trainer-0", kUid}));
  EXPECT_EQ(volumes[0].spec.target.volume_name, "work");
  EXPECT_EQ(volumes[0].spec.attributes, (Context{{"medium", "Memory"}, {"size", "1Mi"}}));
  EXPECT_EQ(volumes[0].repeat_count, 1);
  EXPECT_EQ(FormatRfc3339(volumes[0].published_at.value()), "2026-01-02T03:04:05Z") << "the first success counts";

  ASSERT_EQ(node.Unpublish(request), Status());
  ASSERT_EQ(node.Unpublish(request), Status()) << "repeating is fine";
  ASSERT_EQ(node.publisher_->EndedVolumes().size(), 1u);
  EXPECT_EQ(FormatRfc3339(node.publisher_->EndedVolumes()[0].unpublished_at.value()), "2026-01-02T03:04:10Z");
  node.ExpectClean(request.target_path);
}

TEST(VolumePublisher, KeepsDiskContentsOverAnAgentRestart) {
  Node node;
  ASSERT_TRUE(node.Recover().ok());
  PublishRequest request = node.Request({{"type", "scratch"}});
  ASSERT_EQ(node.Publish(request), Status());
  const std::string file = node.folders_.state_dir() + "/scratch/" + kVolume + "/data";
  WriteTextFile(file, "bytes");

  node.StartAgent();
  ASSERT_TRUE(node.Recover().ok());
  ASSERT_EQ(node.publisher_->Volumes().size(), 1u);
  ASSERT_EQ(node.Publish(request), Status());
  EXPECT_EQ(ReadTextFile(file), "bytes");
  EXPECT_EQ(node.host_.mount_count(), 1u);
  ASSERT_EQ(node.Unpublish(request), Status());
  node.ExpectClean(request.target_path);
}

TEST(VolumePublisher, MountsAgainAfterAReboot) {
  Node node;
  ASSERT_TRUE(node.Recover().ok());
  PublishRequest request = node.Request({{"type", "scratch"}});
  ASSERT_EQ(node.Publish(request), Status());
  ASSERT_EQ(node.host_.Unmount(request.target_path), Status());

  node.StartAgent();
  ASSERT_TRUE(node.Recover().ok());
  EXPECT_EQ(node.host_.mount_count(), 1u);
}

TEST(VolumePublisher, RespectsReadOnly) {
  for (const char* medium : {"Disk", "Memory"}) {
    Node node;
    ASSERT_TRUE(node.Recover().ok());
    PublishRequest request = node.Request({{"type", "scratch"}, {"medium", medium}});
    request.is_read_only = true;
    ASSERT_EQ(node.Publish(request), Status());
    Result<std::optional<MountEntry>> mount = node.host_.MountAt(request.target_path);
    ASSERT_TRUE(mount.ok() && mount->has_value());
    EXPECT_TRUE((*mount)->is_read_only) << medium;
  }
}

TEST(VolumePublisher, RefusesBadRequests) {
  const struct {
    const char* name;
    Context attributes;
    std::string text;  // expected in the message
  } cases[] = {
      {"no type", {}, "known types: scratch"},
      {"unknown type", {{"type", "hdfs9"}}, "unknown type \"hdfs9\"; known types: scratch"},
      {"unknown attribute", {{"type", "scratch"}, {"sise", "1Gi"}}, "type, medium and size"},
      {"bad medium", {{"type", "scratch"}, {"medium", "memory"}}, "neither Memory nor Disk"},
      {"bad size", {{"type", "scratch"}, {"size", "lots"}}, "attribute size"},
      {"negative size", {{"type", "scratch"}, {"size", "-1Gi"}}, "attribute size"},
      {"tiny size", {{"type", "scratch"}, {"size", "1"}}, "less than 4096"},
      {"persistent volume", {{"type", "scratch"}, {"csi.storage.k8s.io/ephemeral", "false"}}, "inline volumes"},
  };
  for (const auto& c : cases) {
    Node node;
    ASSERT_TRUE(node.Recover().ok());
    PublishRequest request = node.Request(c.attributes);
    for (const auto& [key, value] : c.attributes) request.context[key] = value;
    Status status = node.Publish(request);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.name;
    EXPECT_THAT(status.message(), HasSubstr(c.text)) << c.name;
    node.ExpectClean(request.target_path);
  }
}

TEST(VolumePublisher, RefusesTargetsElsewhere) {
  Node node;
  ASSERT_TRUE(node.Recover().ok());
  PublishRequest request = node.Request({{"type", "scratch"}});
  request.target_path = "/etc";
  EXPECT_EQ(node.Publish(request).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(node.Unpublish(request).code(), StatusCode::kInvalidArgument);

  PublishRequest other_pod = node.Request({{"type", "scratch"}});
  other_pod.context["csi.storage.k8s.io/pod.uid"] = "somebody-else";
  EXPECT_THAT(node.Publish(other_pod).message(), HasSubstr("is not of the pod somebody-else"));

  PublishRequest bad_id = node.Request({{"type", "scratch"}}, "../../etc");
  EXPECT_EQ(node.Publish(bad_id).code(), StatusCode::kInvalidArgument);
}

TEST(VolumePublisher, RefusesASymbolicLinkInTheWay) {
  Node node;
  ASSERT_TRUE(node.Recover().ok());
  PublishRequest request = node.Request({{"type", "scratch"}});
  const std::string elsewhere = node.folders_.root() + "/elsewhere";
  std::filesystem::create_directory(elsewhere);
  const std::filesystem::path parent = std::filesystem::path(request.target_path).parent_path();
  std::filesystem::remove(parent);
  std::filesystem::create_directory_symlink(elsewhere, parent);

  EXPECT_EQ(node.Publish(request).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere));
}

TEST(VolumePublisher, RefusesOtherSettingsAtTheSamePlace) {
  Node node;
  ASSERT_TRUE(node.Recover().ok());
  PublishRequest request = node.Request({{"type", "scratch"}});
  ASSERT_EQ(node.Publish(request), Status());
  PublishRequest read_only = request;
  read_only.is_read_only = true;
  EXPECT_EQ(node.Publish(read_only).code(), StatusCode::kAlreadyExists);
  PublishRequest in_memory = request;
  in_memory.context["medium"] = "Memory";
  EXPECT_EQ(node.Publish(in_memory).code(), StatusCode::kAlreadyExists);
  PublishRequest new_token = request;  // kubelet's own attributes do change
  new_token.context["csi.storage.k8s.io/serviceAccount.tokens"] = "{}";
  EXPECT_EQ(node.Publish(new_token), Status());
}

TEST(VolumePublisher, RefusesMoreThanTheDiskHas) {
  Node node;
  ASSERT_TRUE(node.Recover().ok());
  PublishRequest request = node.Request({{"type", "scratch"}, {"size", "1Ei"}});
  Status status = node.Publish(request);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  node.ExpectClean(request.target_path);
}

TEST(VolumePublisher, UnpublishesOnAFullDisk) {
  for (const char* medium : {"Disk", "Memory"}) {
    Node node;
    ASSERT_TRUE(node.Recover().ok());
    PublishRequest request = node.Request({{"type", "scratch"}, {"medium", medium}});
    ASSERT_EQ(node.Publish(request), Status());
    node.host_.FillDisk();
    EXPECT_EQ(node.Unpublish(request), Status()) << medium;
    node.ExpectClean(request.target_path);
  }
}

TEST(VolumePublisher, LeavesNothingWhenTheRecordCannotBeWritten) {
  Node node;
  ASSERT_TRUE(node.Recover().ok());
  node.host_.FillDisk();
  PublishRequest request = node.Request({{"type", "scratch"}});
  EXPECT_FALSE(node.Publish(request).ok());
  node.ExpectClean(request.target_path);
}

TEST(VolumePublisher, UnpublishesWithoutARecord) {
  Node node;
  ASSERT_TRUE(node.Recover().ok());
  PublishRequest request = node.Request({{"type", "scratch"}});
  ASSERT_EQ(node.Publish(request), Status());
  std::filesystem::remove(node.folders_.state_dir() + "/volumes/" + kVolume + ".json");
  node.StartAgent();
  ASSERT_TRUE(node.Recover().ok());
  ASSERT_EQ(node.Unpublish(request), Status());
  node.ExpectClean(request.target_path);
}

TEST(VolumePublisher, SetsADamagedRecordAsideAndKeepsTheFilesOfItsPod) {
  Node node;
  ASSERT_TRUE(node.Recover().ok());
  PublishRequest request = node.Request({{"type", "scratch"}});
  ASSERT_EQ(node.Publish(request), Status());
  const std::string record = node.folders_.state_dir() + "/volumes/" + kVolume + ".json";
  WriteTextFile(record, "{\"version\":1,");
  const std::string file = node.folders_.state_dir() + "/scratch/" + kVolume + "/data";
  WriteTextFile(file, "bytes");

  node.StartAgent();
  Result<RecoveryReport> report = node.publisher_->Recover(Deadline::Infinite());
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->problems.size(), 1u);
  EXPECT_THAT(report->problems[0], HasSubstr("not a JSON object"));
  EXPECT_TRUE(std::filesystem::exists(record + ".damaged"));
  ASSERT_EQ(node.Publish(request), Status()) << "kubelet repeats the call";
  EXPECT_EQ(ReadTextFile(file), "bytes");
  EXPECT_EQ(node.host_.mount_count(), 1u);
}

TEST(VolumePublisher, RemovesVolumesOfPodsThatAreGone) {
  for (const char* when : {"at start", "later"}) {
    Node node;
    ASSERT_TRUE(node.Recover().ok());
    PublishRequest stays = node.Request({{"type", "scratch"}}, "csi-stays", "uid-stays");
    PublishRequest goes = node.Request({{"type", "scratch"}}, "csi-goes", "uid-goes");
    ASSERT_EQ(node.Publish(stays), Status());
    ASSERT_EQ(node.Publish(goes), Status());
    node.folders_.RemovePod("uid-goes");
    if (when == std::string("at start")) {
      node.StartAgent();
      Result<RecoveryReport> report = node.publisher_->Recover(Deadline::Infinite());
      ASSERT_TRUE(report.ok());
      EXPECT_EQ(report->kept, 1);
      EXPECT_EQ(report->removed, 1);
    }
    ASSERT_TRUE(node.publisher_->CleanUp(Deadline::Infinite()).ok());
    ASSERT_EQ(node.publisher_->Volumes().size(), 1u) << when;
    EXPECT_EQ(node.publisher_->Volumes()[0].spec.volume_id, "csi-stays");
    EXPECT_EQ(node.host_.mount_count(), 1u);
    EXPECT_FALSE(std::filesystem::exists(node.folders_.state_dir() + "/scratch/csi-goes"));
  }
}

TEST(VolumePublisher, KeepsEverythingWhenKubeletsFolderCannotBeRead) {
  Node node;
  ASSERT_TRUE(node.Recover().ok());
  ASSERT_EQ(node.Publish(node.Request({{"type", "scratch"}})), Status());
  std::filesystem::remove_all(node.folders_.kubelet_dir() + "/pods");
  node.StartAgent();
  ASSERT_TRUE(node.Recover().ok());
  EXPECT_FALSE(node.publisher_->CleanUp(Deadline::Infinite()).ok());
  EXPECT_EQ(node.publisher_->Volumes().size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(node.folders_.state_dir() + "/scratch/" + kVolume));
}

// What may happen after the agent died somewhere in publish or unpublish.
enum class Sequel { kPublishAgain, kUnpublish, kPodVanished };

class CrashTest : public ::testing::TestWithParam<std::tuple<const char*, bool, Sequel>> {};

TEST_P(CrashTest, NothingIsLostOrLeftWhereverItStruck) {
  const auto [medium, is_read_only, sequel] = GetParam();
  int crashes = 0;
  for (int step = 0;; ++step) {
    Node node;
    ASSERT_TRUE(node.Recover().ok());
    PublishRequest request = node.Request({{"type", "scratch"}, {"medium", medium}});
    request.is_read_only = is_read_only;
    node.host_.CutPowerAfter(step);
    const Status published = node.Publish(request);
    if (published.ok()) node.Unpublish(request).IgnoreError();
    const bool has_struck = node.host_.is_power_cut();
    node.host_.RestorePower();
    crashes += has_struck ? 1 : 0;
    SCOPED_TRACE(testing::Message() << "cut after step " << step);

    if (sequel == Sequel::kPodVanished) node.folders_.RemovePod(kUid);
    node.StartAgent();
    Result<RecoveryReport> report = node.publisher_->Recover(Deadline::Infinite());
    ASSERT_TRUE(report.ok());
    EXPECT_THAT(report->problems, testing::IsEmpty());
    if (sequel == Sequel::kPublishAgain) {
      ASSERT_EQ(node.Publish(request), Status());
      Result<std::optional<MountEntry>> mount = node.host_.MountAt(request.target_path);
      ASSERT_TRUE(mount.ok() && mount->has_value());
      EXPECT_EQ((*mount)->is_read_only, is_read_only);
      EXPECT_EQ(node.host_.mount_count(), 1u);
    }
    if (sequel != Sequel::kPodVanished) {
      ASSERT_EQ(node.Unpublish(request), Status());
    }
    node.ExpectClean(request.target_path);
    if (!has_struck) break;
  }
  EXPECT_GT(crashes, 8) << "the scenario has more steps than that";
}

INSTANTIATE_TEST_SUITE_P(VolumePublisher, CrashTest,
                         testing::Combine(testing::Values("Disk", "Memory"), testing::Bool(),
                                          testing::Values(Sequel::kPublishAgain, Sequel::kUnpublish,
                                                          Sequel::kPodVanished)));

// A type whose Publish waits until the test lets it go.
class SlowVolume final : public VolumeType {
 public:
  std::string_view name() const override { return "slow"; }
  Status Validate(const VolumeSpec&) const override { return Status(); }
  Status Publish(const VolumeSpec&, Deadline) override {
    MutexLock lock(mutex_);
    has_started_ = true;
    changed_.NotifyAll();
    while (!may_end_) changed_.Wait(lock);
    return Status();
  }
  Status Unpublish(const VolumeSpec&, Deadline) override { return Status(); }
  bool serves_persistent() const override { return false; }
  std::optional<VolumeHealth> Look(const VolumeSpec&, Deadline) override { return std::nullopt; }
  Status RemoveOrphans(const std::function<bool(const std::string&)>&) override { return Status(); }
  Status TakeOutTrash() override { return Status(); }

  void AwaitStart() {
    MutexLock lock(mutex_);
    while (!has_started_) changed_.Wait(lock);
  }
  void LetGo() {
    MutexLock lock(mutex_);
    may_end_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool has_started_ GUARDED_BY(mutex_) = false;
  bool may_end_ GUARDED_BY(mutex_) = false;
};

TEST(VolumePublisher, AnswersAbortedWhileACallForTheVolumeIsGoingOn) {
  Node node;
  auto slow = std::make_unique<SlowVolume>();
  SlowVolume* volume = slow.get();
  std::vector<std::unique_ptr<VolumeType>> types;
  types.push_back(std::move(slow));
  VolumePublisher publisher({node.folders_.kubelet_dir(), node.folders_.state_dir()}, node.host_, std::move(types),
                            node.clock_);
  ASSERT_TRUE(publisher.Recover(Deadline::Infinite()).ok());
  PublishRequest request = node.Request({{"type", "slow"}});
  Status first;
  std::jthread caller([&] { first = publisher.Publish(request, Deadline::Infinite()); });
  volume->AwaitStart();
  EXPECT_EQ(publisher.Publish(request, Deadline::Infinite()).code(), StatusCode::kAborted);
  EXPECT_EQ(publisher.Unpublish(request.volume_id, request.target_path, Deadline::Infinite()).code(),
            StatusCode::kAborted);
  volume->LetGo();
  caller.join();
  EXPECT_EQ(first, Status());
  EXPECT_EQ(publisher.Unpublish(request.volume_id, request.target_path, Deadline::Infinite()), Status());
}

}  // namespace
}  // namespace paceline::agent
