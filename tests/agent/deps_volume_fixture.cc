#include "tests/agent/deps_volume_fixture.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/deps/snapshot_store.h"

namespace paceline::agent {

DepsVolumeTest::DepsVolumeTest() {
  WriteTextFile(folders_.root() + "/paceline-deps", "the wrapper");
  std::filesystem::create_directories(folders_.kubelet_dir() + "/plugins");
  holder_.fs_type = "overlay";
  StartAgent();
}

void DepsVolumeTest::StartAgent() {
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

Result<std::unique_ptr<blocks::BlobStore>> DepsVolumeTest::Open(blocks::StoreAccess access) const {
  if (!is_store_there_) return UnavailableError("the store is away");
  return blocks::OpenFolderStore(store_folder(), access);
}

deps::KeyInputs DepsVolumeTest::Inputs(const std::string& command) {
  deps::KeyInputs inputs;
  inputs.ns = "team";
  inputs.machine.arch = "x86_64";
  inputs.command = command;
  inputs.capture = {"/opt/venv"};
  return inputs;
}

PublishRequest DepsVolumeTest::Request(const std::string& id, const std::string& uid, const deps::KeyInputs& inputs) {
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

std::string DepsVolumeTest::KeyOfRequest(const deps::KeyInputs& inputs) {
  return deps::KeyOf(deps::KeyDocument(inputs)).Hex();
}

void DepsVolumeTest::Install(const std::string& id, const std::string& text) const {
  WriteTextFile(Folder(id) + "/tree/opt/venv/lib/module.py", text);
  WriteTextFile(Folder(id) + "/tree/opt/venv/bin/tool", "#!/bin/sh\n");
}

void DepsVolumeTest::Report(const std::string& id, bool was_clean, const std::string& key) const {
  WriteTextFile(Folder(id) + "/control/report",
                DumpJson({{"how", "installed"}, {"clean", was_clean}, {"key", key}, {"seconds", 3.5}}) + "\n");
}

std::vector<deps::FoundSnapshot> DepsVolumeTest::Snapshots() const {
  const auto store = blocks::OpenFolderStore(store_folder(), blocks::StoreAccess::kRead);
  if (!store.ok()) return {};
  return deps::ListSnapshots(**store, "team", Deadline::Infinite())->snapshots;
}

void DepsVolumeTest::RecordOne(const deps::KeyInputs& inputs) {
  const PublishRequest request = Request("csi-first", kDepsOtherUid, inputs);
  ASSERT_TRUE(Publish(request).ok());
  Install("csi-first");
  Report("csi-first", true, KeyOfRequest(inputs));
  LookAround();
  ASSERT_TRUE(Unpublish(request).ok());
}

api::PodDependencies DepsVolumeTest::Told() const {
  const std::vector<SeenVolume> seen = publisher_->Look(Deadline::Infinite());
  EXPECT_THAT(seen, ::testing::SizeIs(1));
  return seen.empty() ? api::PodDependencies{} : seen[0].dependencies.value_or(api::PodDependencies{});
}

}  // namespace paceline::agent
