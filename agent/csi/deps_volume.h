// Volume type `deps`: the directories into which a container installs its dependencies, and the wrapper that runs the
// install. With a snapshot of the volume's key the directories come mounted, read lazily, from a process that
// paceline-holder runs; without one, and whenever anything is wrong, they are empty directories of the node, the
// install runs as the user wrote it, and what it leaves is recorded. Inline volumes, made by the webhook; attributes
// and layout in docs/formats/dependency-snapshot.md, section 6.
//
// A volume's fate is decided once, at its first Publish, and written down: directories never change under a pod.
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/csi/deps_metrics.h"
#include "agent/csi/deps_recorder.h"
#include "agent/csi/holder_client.h"
#include "agent/csi/volume_host.h"
#include "agent/csi/volume_type.h"
#include "lib/base/log.h"
#include "lib/deps/trust.h"

namespace paceline::agent {

struct DepsVolumeOptions {
  std::string state_dir;  // keeps deps, deps-new, deps-trash and deps-state there; must exist
  std::string wrapper;    // the program paceline-deps
  std::string store;      // URL; empty: nothing is looked for and nothing recorded
  OpenStore open_for_reading;
  OpenStore open_for_writing;  // to put aside what is wrong
  deps::TrustFiles trust;      // who may have recorded
  std::string node;
  std::vector<std::string> serve_arguments;         // of paceline-snapshotter: how the store is reached
  Duration find_limit = std::chrono::seconds(10);   // to look for a snapshot
  Duration mount_limit = std::chrono::seconds(30);  // to mount it
  DepsRecorderOptions recorder;
  DepsMetrics* metrics = nullptr;  // must outlive the type; may be null
  // Called from any thread when it is known what becomes of a pod's install; the pod may be gone. May be null.
  std::function<void(const PodIdentity& pod, const api::PodDependencies& end)> on_end;
};

class DepsVolume : public VolumeType {
 public:
  // Everything passed by reference must outlive the type. The holder's mount points must lie below a root of `host`.
  static std::unique_ptr<DepsVolume> New(DepsVolumeOptions options, std::unique_ptr<HolderClient> holder,
                                         VolumeHost& host, const FileSystem& files, const Clock& clock, Logger& log);

  virtual DepsRecorder& recorder() = 0;
  // Manifests of the snapshots that are mounted in volumes, or about to be. A failure: nobody knows.
  virtual Result<std::set<blocks::Digest>> UsedSnapshots() = 0;
};

}  // namespace paceline::agent
