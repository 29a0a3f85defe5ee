// Volumes of type deps with real folders, a real folder store and real recordings; mounts and holder are in memory. One
// thread.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "agent/csi/deps_volume.h"
#include "agent/csi/volume_publisher.h"
#include "lib/base/json.h"
#include "lib/blocks/format/folder_store.h"
#include "lib/deps/snapshot_store.h"
#include "tests/agent/fake_holder.h"
#include "tests/agent/memory_mounts.h"
#include "tests/agent/node_folders.h"
#include "tests/fakes/capture_log.h"

namespace paceline::agent {

inline const std::string kDepsPodUid = "0d4e1f0a-94b1-4b3b-8a42-77c2e9b5a001";
inline const std::string kDepsOtherUid = "0d4e1f0a-94b1-4b3b-8a42-77c2e9b5a002";

class DepsVolumeTest : public ::testing::Test {
 protected:
  DepsVolumeTest() {
    WriteTextFile(folders_.root() + "/paceline-deps", "the wrapper");
    std::filesystem::create_directories(folders_.kubelet_dir() + "/plugins");
    holder_.fs_type = "overlay";
    StartAgent();
  }

  void StartAgent() {
    publisher_.reset();
    DepsVolumeOptions options;
    options.state_dir = folders_.state_dir();
    options.wrapper = folders_.root() + "/paceline-deps";
    options.store = has_store_ ? "file://" + store_folder() : "";
    options.open_for_reading = [this] { return Open(blocks::StoreAccess::kRead); };
    options.serve_arguments = {"--registry-hosts-folder", "/certs"};
    options.mount_limit = std::chrono::milliseconds(200);
    options.open_for_writing = [this] { return Open(blocks::StoreAccess::kWrite); };
    options.recorder.open_for_writing = options.open_for_writing;
    options.trust = options.recorder.trust = trust_;
    options.node = options.recorder.node = "n0";
    options.recorder.lease_folder = store_folder() + "/leases";
    options.metrics = &metrics_;
    options.on_end = [this](const PodIdentity& pod, const api::PodDependencies& end) { ends_[pod.uid] = end; };
    std::unique_ptr<DepsVolume> type = DepsVolume::New(std::move(options), std::make_unique<FakeHolderClient>(holder_),
                                                       host_, files_, clock_, log_.logger());
    volume_ = type.get();
    std::vector<std::unique_ptr<VolumeType>> types;
    types.push_back(std::move(type));
    publisher_ = std::make_unique<VolumePublisher>(
        VolumePublisher::Options{folders_.kubelet_dir(), folders_.state_dir(), {}}, host_, std::move(types), clock_);
    const Result<RecoveryReport> report = publisher_->Recover(Deadline::Infinite());
    ASSERT_TRUE(report.ok());
    EXPECT_THAT(report->problems, ::testing::IsEmpty());
  }

  std::string store_folder() const { return folders_.root() + "/store"; }
  Result<std::unique_ptr<blocks::BlobStore>> Open(blocks::StoreAccess access) const {
    if (!is_store_there_) return UnavailableError("the store is away");
    return blocks::OpenFolderStore(store_folder(), access);
  }

  static deps::KeyInputs Inputs(const std::string& command = "make") {
    deps::KeyInputs inputs;
    inputs.ns = "team";
    inputs.machine.arch = "x86_64";
    inputs.command = command;
    inputs.capture = {"/opt/venv"};
    return inputs;
  }
  PublishRequest Request(const std::string& id = "csi-1", const std::string& uid = kDepsPodUid,
                         const deps::KeyInputs& inputs = Inputs()) {
    PublishRequest request;
    request.volume_id = id;
    request.target_path = folders_.AddVolume(uid, "paceline-dependencies");
    request.context = {{"type", "deps"},
                       {"capture", R"(["/opt/venv"])"},
                       {"key", DumpJson(deps::KeyDocument(inputs))},
                       {"csi.storage.k8s.io/pod.namespace", "team"},
                       {"csi.storage.k8s.io/serviceAccount.name", "trainer"},
                       {"csi.storage.k8s.io/pod.uid", uid}};
    return request;
  }
  static std::string KeyOfRequest(const deps::KeyInputs& inputs = Inputs()) {
    return deps::KeyOf(deps::KeyDocument(inputs)).Hex();
  }
  Status Publish(const PublishRequest& request) { return publisher_->Publish(request, Deadline::Infinite()); }
  Status Unpublish(const PublishRequest& request) {
    return publisher_->Unpublish(request.volume_id, request.target_path, Deadline::Infinite());
  }
  std::string Folder(const std::string& id = "csi-1") const { return folders_.state_dir() + "/deps/" + id; }

  // What the wrapper does in the container.
  void Install(const std::string& id = "csi-1", const std::string& text = "x = 1\n") const {
    WriteTextFile(Folder(id) + "/tree/opt/venv/lib/module.py", text);
    WriteTextFile(Folder(id) + "/tree/opt/venv/bin/tool", "#!/bin/sh\n");
  }
  void Report(const std::string& id = "csi-1", bool was_clean = true, const std::string& key = KeyOfRequest()) const {
    WriteTextFile(Folder(id) + "/control/report",
                  DumpJson({{"how", "installed"}, {"clean", was_clean}, {"key", key}, {"seconds", 3.5}}) + "\n");
  }
  std::string Answer(const std::string& id = "csi-1") const { return ReadTextFile(Folder(id) + "/control/answer"); }
  void LookAround() const {
    volume_->recorder().LookAround();
    volume_->recorder().AwaitIdle();
  }
  std::vector<deps::FoundSnapshot> Snapshots() const {
    const auto store = blocks::OpenFolderStore(store_folder(), blocks::StoreAccess::kRead);
    if (!store.ok()) return {};
    return deps::ListSnapshots(**store, "team", Deadline::Infinite())->snapshots;
  }
  void RecordOne(const deps::KeyInputs& inputs = Inputs()) {
    const PublishRequest request = Request("csi-first", kDepsOtherUid, inputs);
    ASSERT_TRUE(Publish(request).ok());
    Install("csi-first");
    Report("csi-first", true, KeyOfRequest(inputs));
    LookAround();
    ASSERT_TRUE(Unpublish(request).ok());
  }
  // What the operator would be told of the one volume.
  api::PodDependencies Told() const {
    const std::vector<SeenVolume> seen = publisher_->Look(Deadline::Infinite());
    EXPECT_THAT(seen, ::testing::SizeIs(1));
    return seen.empty() ? api::PodDependencies{} : seen[0].dependencies.value_or(api::PodDependencies{});
  }
  std::string FsTypeAt(const std::string& path) {
    const auto mount = host_.MountAt(path).value_or(std::nullopt);
    return mount ? mount->fs_type : "";
  }

  const NodeFolders folders_;
  MemoryMounts host_{{folders_.kubelet_dir(), folders_.state_dir()}};
  FakeHolder holder_{host_, folders_.kubelet_dir() + "/plugins"};
  const RealFileSystem files_;
  RealClock clock_;
  fakes::CaptureLog log_;
  bool has_store_ = true, is_store_there_ = true;
  deps::TrustFiles trust_;
  const std::unique_ptr<MetricsRegistry> registry_ = MetricsRegistry::Create();
  DepsMetrics metrics_{*registry_};
  std::map<std::string, api::PodDependencies> ends_;  // by the pod's uid
  DepsVolume* volume_ = nullptr;
  std::unique_ptr<VolumePublisher> publisher_;
};

}  // namespace paceline::agent
