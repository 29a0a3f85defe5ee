// Volumes of type deps with real folders, a real folder store and real recordings; mounts and holder are in memory. One
// thread.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/csi/deps_volume.h"
#include "agent/csi/volume_publisher.h"
#include "lib/blocks/format/folder_store.h"
#include "tests/agent/fake_holder.h"
#include "tests/agent/node_folders.h"
#include "tests/fakes/capture_log.h"

namespace paceline::agent {

inline const std::string kDepsPodUid = "0d4e1f0a-94b1-4b3b-8a42-77c2e9b5a001";
inline const std::string kDepsOtherUid = "0d4e1f0a-94b1-4b3b-8a42-77c2e9b5a002";

class DepsVolumeTest : public ::testing::Test {
 protected:
  DepsVolumeTest();

  void StartAgent();

  std::string store_folder() const { return folders_.root() + "/store"; }
  Result<std::unique_ptr<blocks::BlobStore>> Open(blocks::StoreAccess access) const;

  static deps::KeyInputs Inputs(const std::string& command = "make");
  PublishRequest Request(const std::string& id = "csi-1", const std::string& uid = kDepsPodUid,
                         const deps::KeyInputs& inputs = Inputs());
  static std::string KeyOfRequest(const deps::KeyInputs& inputs = Inputs());
  Status Publish(const PublishRequest& request) { return publisher_->Publish(request, Deadline::Infinite()); }
  Status Unpublish(const PublishRequest& request) {
    return publisher_->Unpublish(request.volume_id, request.target_path, Deadline::Infinite());
  }
  std::string Folder(const std::string& id = "csi-1") const { return folders_.state_dir() + "/deps/" + id; }

  // What the wrapper does in the container.
  void Install(const std::string& id = "csi-1", const std::string& text = "x = 1\n") const;
  void Report(const std::string& id = "csi-1", bool was_clean = true, const std::string& key = KeyOfRequest()) const;
  std::string Answer(const std::string& id = "csi-1") const { return ReadTextFile(Folder(id) + "/control/answer"); }
  void LookAround() const {
    volume_->recorder().LookAround();
    volume_->recorder().AwaitIdle();
  }
  std::vector<deps::FoundSnapshot> Snapshots() const;
  void RecordOne(const deps::KeyInputs& inputs = Inputs());
  // What the operator would be told of the one volume.
  api::PodDependencies Told() const;
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
