// Volumes of type deps with real folders, a real folder store and real recordings; mounts and holder are in memory.
#include "agent/csi/deps_volume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/deps/lease.h"
#include "lib/deps/snapshot_store.h"
#include "tests/agent/deps_volume_fixture.h"

namespace paceline::agent {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
namespace fs = std::filesystem;

TEST_F(DepsVolumeTest, WithoutASnapshotTheDirectoriesAreEmptyAndAnyonesToWrite) {
  const PublishRequest request = Request();
  ASSERT_TRUE(Publish(request).ok());
  EXPECT_EQ(host_.MountAt(request.target_path).value_or(std::nullopt)->root, Folder());
  EXPECT_EQ(ReadTextFile(Folder() + "/program/paceline-deps"), "the wrapper");
  EXPECT_EQ(fs::status(Folder() + "/program/paceline-deps").permissions(), fs::perms(0755));
  EXPECT_EQ(fs::status(Folder() + "/tree/opt/venv").permissions(), fs::perms::all);
  EXPECT_EQ(fs::status(Folder() + "/control").permissions(), fs::perms::all);
  EXPECT_EQ(fs::status(Folder() + "/tree/opt").permissions(), fs::perms(0755));
  EXPECT_TRUE(fs::is_empty(Folder() + "/tree/opt/venv"));
  EXPECT_THAT(holder_.orders, IsEmpty());

  ASSERT_TRUE(Publish(request).ok());
  ASSERT_TRUE(Unpublish(request).ok());
  ASSERT_TRUE(Unpublish(request).ok());
  EXPECT_EQ(host_.mount_count(), 0U);
  ASSERT_TRUE(publisher_->CleanUp(Deadline::Infinite()).ok());
  EXPECT_EQ(folders_.LeftInState(), "");
}

TEST_F(DepsVolumeTest, AnInstallIsRecordedAndMountedInTheNextPod) {
  const PublishRequest request = Request();
  ASSERT_TRUE(Publish(request).ok());
  LookAround();  // not installed yet
  EXPECT_EQ(Answer(), "");
  Install();
  Report();
  LookAround();
  EXPECT_EQ(Answer(), "they are being recorded for the next start\n");
  ASSERT_THAT(Snapshots(), SizeIs(1));
  const deps::FoundSnapshot snapshot = Snapshots()[0];
  EXPECT_EQ(snapshot.manifest.key, KeyOfRequest());
  EXPECT_EQ(snapshot.record.files, 2U);
  EXPECT_EQ(snapshot.record.install_seconds, 3.5);
  EXPECT_EQ(log_.Count("dependencies recorded"), 1U) << log_.Text();

  const PublishRequest next = Request("csi-2", kDepsOtherUid);
  ASSERT_TRUE(Publish(next).ok());
  ASSERT_THAT(holder_.orders, SizeIs(1));
  const MountOrder& order = holder_.orders[0];
  EXPECT_EQ(order.program, "paceline-snapshotter");
  const std::string image = blocks::Sha256Of(deps::DerivedImage(snapshot.manifest, snapshot.descriptor)).ToString();
  EXPECT_THAT(order.arguments, Contains(image));
  EXPECT_THAT(order.arguments, Contains("--writable"));
  EXPECT_THAT(order.arguments, Contains("file://" + store_folder()));
  EXPECT_THAT(order.arguments, Contains("/certs"));
  EXPECT_EQ(FsTypeAt(next.target_path + "/tree"), "overlay");
  EXPECT_EQ(ReadTextFile(Folder("csi-2") + "/program/paceline-deps"), "the wrapper");

  ASSERT_TRUE(Unpublish(next).ok());
  ASSERT_TRUE(Unpublish(request).ok());
  EXPECT_THAT(holder_.held, IsEmpty());
  EXPECT_EQ(host_.mount_count(), 0U);
  ASSERT_TRUE(publisher_->CleanUp(Deadline::Infinite()).ok());
  EXPECT_EQ(folders_.LeftInState(), "");
}

TEST_F(DepsVolumeTest, WhateverIsWrongTheInstallRuns) {
  RecordOne();
  const auto publishes_empty = [&](const char* what) {
    const PublishRequest request = Request();
    EXPECT_TRUE(Publish(request).ok()) << what;
    EXPECT_EQ(FsTypeAt(request.target_path + "/tree"), "") << what;
    EXPECT_TRUE(fs::exists(Folder() + "/tree/opt/venv")) << what;
    EXPECT_TRUE(Unpublish(request).ok()) << what;
    EXPECT_THAT(holder_.held, IsEmpty()) << what;
    EXPECT_TRUE(publisher_->CleanUp(Deadline::Infinite()).ok()) << what;
  };
  is_store_there_ = false;
  publishes_empty("no store");
  is_store_there_ = true;
  holder_.is_there = false;
  publishes_empty("no holder");
  holder_.is_there = true;
  holder_.next_state = HeldState::kFailed;
  publishes_empty("the mount fails");
  holder_.next_state = HeldState::kStarting;
  publishes_empty("the mount hangs");
  holder_.next_state = HeldState::kMounted;
  const auto blobs = store_folder() + "/blobs/sha256";
  std::vector<fs::path> files;
  for (const auto& blob : fs::directory_iterator(blobs)) files.push_back(blob.path());
  for (const fs::path& blob : files) {
    const std::string bytes = ReadTextFile(blob.string());
    std::string flipped = bytes;
    flipped[flipped.size() / 2] ^= 1;
    WriteTextFile(blob.string(), flipped);
    const PublishRequest request = Request();
    EXPECT_TRUE(Publish(request).ok()) << blob;  // a damaged chunk shows when it is read, and not before
    EXPECT_TRUE(Unpublish(request).ok()) << blob;
    EXPECT_TRUE(publisher_->CleanUp(Deadline::Infinite()).ok());
    WriteTextFile(blob.string(), bytes);
  }
  has_store_ = false;
  StartAgent();
  publishes_empty("no store configured");
}

TEST_F(DepsVolumeTest, TellsWhatBecomesOfEachPod) {
  using State = api::DependencyState;
  using Cause = api::InstallCause;
  const PublishRequest request = Request();
  ASSERT_TRUE(Publish(request).ok());
  api::PodDependencies told = Told();
  EXPECT_EQ(told.key, KeyOfRequest());
  EXPECT_EQ(told.state, State::kInstalling);
  EXPECT_EQ(told.cause, Cause::kNoSnapshot);
  EXPECT_TRUE(told.at.has_value());
  Install();
  Report();
  LookAround();
  const api::PodDependencies recorded = Told();
  EXPECT_EQ(recorded.state, State::kRecorded) << recorded.not_recorded;
  ASSERT_THAT(Snapshots(), SizeIs(1));
  const deps::FoundSnapshot snapshot = Snapshots()[0];
  EXPECT_EQ(recorded.digest, snapshot.descriptor.digest.ToString());
  EXPECT_EQ(recorded.size_bytes, static_cast<int64_t>(snapshot.record.bytes));
  EXPECT_EQ(recorded.expires_at, snapshot.record.expires);
  EXPECT_EQ(recorded.seconds, 3.5);
  EXPECT_EQ(ends_[kDepsPodUid], recorded);
  StartAgent();
  EXPECT_EQ(Told(), recorded) << "a restarted agent knows it still";
  ASSERT_TRUE(Unpublish(request).ok());

  const PublishRequest next = Request("csi-2", kDepsOtherUid);
  ASSERT_TRUE(Publish(next).ok());
  told = Told();
  EXPECT_EQ(told.state, State::kRestored);
  EXPECT_EQ(told.cause, std::nullopt);
  EXPECT_EQ(told.digest, recorded.digest);
  EXPECT_EQ(told.recorded_at, recorded.recorded_at);
  EXPECT_TRUE(told.seconds.has_value());
  ASSERT_TRUE(Unpublish(next).ok());
  EXPECT_EQ(ends_.count(kDepsOtherUid), 0U) << "there was nothing to come";
  const std::string page = registry_->Render();
  EXPECT_THAT(page, HasSubstr("paceline_dependency_restores_total 1\n"));
  EXPECT_THAT(page, HasSubstr("paceline_dependency_installs_total{cause=\"NoSnapshot\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("paceline_dependency_recordings_total{result=\"recorded\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("paceline_dependency_restore_duration_seconds_count 1\n"));
  EXPECT_THAT(page, HasSubstr("paceline_dependency_recording_duration_seconds_count 1\n"));
}

TEST_F(DepsVolumeTest, TellsWhyNothingIsRestoredOrRecorded) {
  using Cause = api::InstallCause;
  RecordOne();
  const auto told = [&](const PublishRequest& request) {
    EXPECT_TRUE(Publish(request).ok());
    api::PodDependencies now = Told();
    EXPECT_TRUE(Unpublish(request).ok());
    return now;
  };
  is_store_there_ = false;
  EXPECT_EQ(told(Request()).cause, Cause::kStoreUnavailable);
  is_store_there_ = true;
  holder_.is_there = false;
  EXPECT_EQ(told(Request()).cause, Cause::kNotMounted);
  holder_.is_there = true;
  EXPECT_EQ(ends_[kDepsPodUid].state, api::DependencyState::kNotRecorded);
  EXPECT_THAT(ends_[kDepsPodUid].not_recorded, HasSubstr("ended before its install"));
  PublishRequest keyless = Request();
  keyless.context.erase("key");
  keyless.context["reason"] = "envFrom";
  const api::PodDependencies opaque = told(keyless);
  EXPECT_EQ(opaque.cause, Cause::kNotCacheable);
  EXPECT_EQ(opaque.reason, "envFrom");
  EXPECT_EQ(opaque.key, "");
  EXPECT_EQ(opaque.state, api::DependencyState::kNotRecorded);
  for (const auto& blob : fs::directory_iterator(store_folder() + "/blobs/sha256")) {
    const std::string text = ReadTextFile(blob.path().string());
    if (text.find("keyInputs") != std::string::npos) WriteTextFile(blob.path().string(), "no record");
  }
  EXPECT_EQ(told(Request()).cause, Cause::kDamaged);
  has_store_ = false;
  StartAgent();
  EXPECT_EQ(told(Request()).cause, Cause::kNoStore);
}

TEST_F(DepsVolumeTest, CountsWhereTheBytesOfMountsCameFrom) {
  RecordOne();
  const PublishRequest request = Request();
  ASSERT_TRUE(Publish(request).ok());
  ASSERT_THAT(holder_.orders, SizeIs(1));
  EXPECT_EQ(holder_.orders[0].environment.at("PACELINE_SNAPSHOTTER_CONTROL"), "{control}");
  EXPECT_EQ(holder_.orders[0].environment.at("PACELINE_SNAPSHOTTER_HOT_SET"), "record");
  const auto bytes_from = [&](const std::string& source) {
    publisher_->Look(Deadline::Infinite());
    const std::string page = registry_->Render(),
                      name = "paceline_dependency_read_bytes_total{source=\"" + source + "\"} ";
    const size_t at = page.find(name);
    return at == std::string::npos ? 0 : std::stoi(page.substr(at + name.size()));
  };
  holder_.stats = R"({"originBytes":100,"diskBytes":7})";
  EXPECT_EQ(bytes_from("store"), 100);
  EXPECT_EQ(bytes_from("disk"), 7);
  holder_.stats = R"({"originBytes":130})";
  EXPECT_EQ(bytes_from("store"), 130);
  holder_.stats = "error: unknown command";
  EXPECT_EQ(bytes_from("store"), 130);
  holder_.stats = R"({"originBytes":20})";  // a process that was started again
  EXPECT_EQ(bytes_from("store"), 150);
  EXPECT_EQ(bytes_from("peer"), 0);
}

TEST_F(DepsVolumeTest, AnOlderHolderMountsAllTheSame) {
  RecordOne();
  holder_.is_old = true;
  const PublishRequest request = Request();
  ASSERT_TRUE(Publish(request).ok());
  EXPECT_EQ(FsTypeAt(request.target_path + "/tree"), "overlay");
  ASSERT_THAT(holder_.orders, SizeIs(1));
  EXPECT_THAT(holder_.orders[0].environment, IsEmpty());
}

TEST_F(DepsVolumeTest, AHolderBeforeHotSetsStillGetsTheControlSocket) {
  RecordOne();
  holder_.refused_variable = "PACELINE_SNAPSHOTTER_HOT_SET";
  ASSERT_TRUE(Publish(Request()).ok());
  ASSERT_THAT(holder_.orders, SizeIs(1));
  EXPECT_THAT(holder_.orders[0].environment, SizeIs(1));
  EXPECT_EQ(holder_.orders[0].environment.at("PACELINE_SNAPSHOTTER_CONTROL"), "{control}");
}

TEST_F(DepsVolumeTest, ARecordingThatOutlastsItsPodIsTold) {
  const PublishRequest request = Request();
  ASSERT_TRUE(Publish(request).ok());
  Install();
  Report();
  ASSERT_TRUE(Unpublish(request).ok());
  volume_->recorder().AwaitIdle();
  EXPECT_EQ(ends_[kDepsPodUid].state, api::DependencyState::kRecorded);
  EXPECT_THAT(ends_[kDepsPodUid].digest, HasSubstr("sha256:"));
}

TEST_F(DepsVolumeTest, OtherKeysAndOtherNamespacesDoNotFindIt) {
  RecordOne();
  ASSERT_TRUE(Publish(Request("csi-2", kDepsPodUid, Inputs("make more"))).ok());
  EXPECT_THAT(holder_.orders, IsEmpty());
  PublishRequest foreign = Request("csi-3", kDepsOtherUid);
  foreign.context["csi.storage.k8s.io/pod.namespace"] = "other";
  EXPECT_EQ(Publish(foreign).code(), StatusCode::kInvalidArgument);
}

TEST_F(DepsVolumeTest, WhatIsNotAnInstallFromNothingIsNotRecorded) {
  const auto answer_of = [&](const std::string& id, auto prepare) {
    const PublishRequest request = Request(id);
    EXPECT_TRUE(Publish(request).ok());
    Install(id);
    prepare();
    LookAround();
    const std::string answer = Answer(id);
    EXPECT_TRUE(Unpublish(request).ok());
    return answer;
  };
  EXPECT_THAT(answer_of("csi-1", [&] { Report("csi-1", false); }), HasSubstr("began with something"));
  EXPECT_THAT(answer_of("csi-2",
                        [&] {
                          Report("csi-2");
                          WriteTextFile(Folder("csi-2") + "/control/started", "started\n");
                        }),
              HasSubstr("the program had started"));
  EXPECT_EQ(answer_of("csi-3", [&] { Report("csi-3", true, std::string(64, '0')); }), "");
  EXPECT_EQ(answer_of("csi-4", [&] { WriteTextFile(Folder("csi-4") + "/control/report", "{\"how\":"); }), "");
  EXPECT_THAT(answer_of("csi-5",
                        [&] {
                          WriteTextFile(Folder("csi-5") + "/tree/opt/venv/pip.conf", "url = https://me:hunter2@h/\n");
                          Report("csi-5");
                        }),
              HasSubstr("not recorded: not published, for it would travel:   /opt/venv/pip.conf"));
  is_store_there_ = false;
  EXPECT_THAT(answer_of("csi-6", [&] { Report("csi-6"); }), HasSubstr("the store is away"));
  is_store_there_ = true;
  const auto lease = deps::Lease::Take(store_folder() + "/leases", KeyOfRequest(), deps::Lease::Mode::kExclusive,
                                       clock_, Deadline::Infinite());
  ASSERT_TRUE(lease.ok());
  EXPECT_THAT(answer_of("csi-7", [&] { Report("csi-7"); }), HasSubstr("is held by"));
  EXPECT_THAT(Snapshots(), IsEmpty());
}

TEST_F(DepsVolumeTest, LinksThatTheContainerPlantsLeadNowhere) {
  WriteTextFile(folders_.root() + "/node-secret", "of the node");
  ASSERT_TRUE(Publish(Request()).ok());
  Install();
  fs::remove_all(Folder() + "/tree/opt");
  fs::create_directory_symlink(folders_.root(), Folder() + "/tree/opt");
  Report();
  LookAround();
  EXPECT_THAT(Answer(), HasSubstr("not recorded"));

  ASSERT_TRUE(Publish(Request("csi-2")).ok());
  fs::remove_all(Folder("csi-2") + "/tree");
  WriteTextFile(folders_.root() + "/opt/venv/file", "of the node");
  fs::create_directory_symlink(folders_.root(), Folder("csi-2") + "/tree");
  Report("csi-2");
  LookAround();
  EXPECT_THAT(Answer("csi-2"), HasSubstr("not recorded"));

  ASSERT_TRUE(Publish(Request("csi-3")).ok());
  Install("csi-3");
  fs::remove_all(Folder("csi-3") + "/control");
  fs::create_directory_symlink(folders_.root(), Folder("csi-3") + "/control");
  WriteTextFile(folders_.root() + "/report",
                DumpJson({{"how", "installed"}, {"clean", true}, {"key", KeyOfRequest()}, {"seconds", 1}}));
  LookAround();
  EXPECT_FALSE(fs::exists(folders_.root() + "/answer"));
  EXPECT_THAT(Snapshots(), IsEmpty());
}

TEST_F(DepsVolumeTest, APodThatEndsEarlyIsRecordedAllTheSame) {
  const PublishRequest request = Request();
  ASSERT_TRUE(Publish(request).ok());
  Install();
  Report();
  ASSERT_TRUE(Unpublish(request).ok());
  volume_->recorder().AwaitIdle();
  EXPECT_THAT(Snapshots(), SizeIs(1));
  ASSERT_TRUE(publisher_->CleanUp(Deadline::Infinite()).ok());
  EXPECT_EQ(folders_.LeftInState(), "");
}

TEST_F(DepsVolumeTest, ARestartedAgentGoesOnWhereItWas) {
  RecordOne();
  const PublishRequest restored = Request("csi-1", kDepsPodUid),
                       installing = Request("csi-2", kDepsOtherUid, Inputs("other"));
  ASSERT_TRUE(Publish(restored).ok());
  ASSERT_TRUE(Publish(installing).ok());
  Install("csi-2");
  const size_t mounts = host_.mount_count();
  StartAgent();
  EXPECT_EQ(host_.mount_count(), mounts);
  Report("csi-2", true, KeyOfRequest(Inputs("other")));
  LookAround();
  EXPECT_EQ(Answer("csi-2"), "they are being recorded for the next start\n");
  EXPECT_THAT(Snapshots(), SizeIs(2));
  // What is over stays over.
  fs::remove(Folder("csi-2") + "/control/answer");
  WriteTextFile(Folder("csi-2") + "/control/started", "started\n");
  StartAgent();
  LookAround();
  EXPECT_EQ(Answer("csi-2"), "");
  // A snapshot that appears later does not change a volume that was made without.
  ASSERT_TRUE(Publish(installing).ok());
  EXPECT_EQ(FsTypeAt(installing.target_path + "/tree"), "");
}

TEST_F(DepsVolumeTest, AServerThatDiedIsBoundAnewAndToldOfNoCheckpoint) {
  RecordOne();
  const PublishRequest request = Request();
  ASSERT_TRUE(Publish(request).ok());
  const std::string name = holder_.held.begin()->first;
  const size_t before = host_.mount_count();
  holder_.DieAndComeBack(name);
  const std::vector<SeenVolume> seen = publisher_->Look(Deadline::Infinite());
  ASSERT_THAT(seen, SizeIs(1));
  EXPECT_EQ(host_.mount_count(), before + 1);  // over the dead one
  EXPECT_EQ(publisher_->Look(Deadline::Infinite())[0].figures->restarts, 1);
  EXPECT_EQ(host_.mount_count(), before + 1);
  ASSERT_TRUE(Unpublish(request).ok());
  EXPECT_EQ(host_.mount_count(), 0U);
}

TEST_F(DepsVolumeTest, APowerCutAtAnyStepLeavesNothingBehind) {
  RecordOne();
  for (int steps = 0; steps < 60; ++steps) {
    const PublishRequest request = Request();
    host_.CutPowerAfter(steps);
    const Status published = Publish(request);
    host_.RestorePower();
    StartAgent();
    ASSERT_TRUE(Publish(request).ok()) << steps;
    host_.CutPowerAfter(steps);
    Unpublish(request).IgnoreError();
    host_.RestorePower();
    StartAgent();
    ASSERT_TRUE(Unpublish(request).ok()) << steps;
    EXPECT_EQ(host_.mount_count(), 0U) << steps;
    ASSERT_TRUE(publisher_->CleanUp(Deadline::Infinite()).ok());
    EXPECT_EQ(folders_.LeftInState(), "") << steps;
    EXPECT_THAT(holder_.held, IsEmpty()) << steps;
    if (published.ok() && steps > 40) break;
  }
}

}  // namespace
}  // namespace paceline::agent
