// What containerd's plugin does for each call: snapshots as folders and overlays like those of containerd's own
// overlayfs snapshotter, and layers of converted images as mounts that are there at once.
//
// A layer that is about to be unpacked (its request names a target) is looked for among the converted images first.
// When it is found and mounted, a committed snapshot is made and the call ends with kAlreadyExists, which tells
// containerd to look for it and to fetch nothing; in any other case the call goes on as for every image.
//
// Called by SnapshotServer from many threads. Calls block for the disk, Prepare also for registries (bounded).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/filesystem.h"
#include "lib/base/log.h"
#include "snapshotter/plugin/folder_usage.h"
#include "snapshotter/plugin/mount_plan.h"
#include "snapshotter/plugin/remote_layers.h"
#include "snapshotter/plugin/snapshot_filter.h"
#include "snapshotter/plugin/snapshot_table.h"

namespace paceline::snapshotter {

// The label with the chain ID of the layer that an extraction is to make.
inline constexpr char kTargetLabel[] = "containerd.io/snapshot.ref";

class Snapshots {
 public:
  // Borrows all.
  Snapshots(std::string root, const OverlayTraits& traits, SnapshotTable& table, RemoteLayers& layers, Logger& log)
      : root_(std::move(root)), traits_(traits), table_(table), layers_(layers), log_(log) {}

  // Prepare and View. kAlreadyExists for a key that is there, and for a target that is served as a mount.
  Result<std::vector<PlannedMount>> Make(const NewSnapshot& wanted);
  // Of an active snapshot or a view. Idempotent; mounts that are lost are made again.
  Result<std::vector<PlannedMount>> Mounts(const std::string& key);
  // No network: containerd waits in a transaction of its own.
  Status Commit(const std::string& key, const NewSnapshot& as);
  // Cheap: the folder goes with CleanUp.
  Status Remove(const std::string& name);
  Result<FolderUsage> Usage(const std::string& name);
  Result<SnapshotPtr> Stat(const std::string& name) const { return table_.Find(name); }
  Result<SnapshotPtr> Update(const std::string& name, const LabelChange& change) {
    return table_.UpdateLabels(name, change);
  }
  Result<std::vector<SnapshotPtr>> List(const std::vector<std::string>& filters) const;
  // Removes folders that belong to nothing; what cannot go yet is tried again next time.
  Status CleanUp();

 private:
  // kAlreadyExists when a snapshot stands in for the target; ok when the target is to be unpacked.
  Status TryRemote(const NewSnapshot& wanted, const std::string& target);
  Status MakeRemote(SnapshotRecord& snapshot, const RemoteLayer& layer);
  Status MakeFolders(const SnapshotRecord& snapshot, const std::vector<SnapshotPtr>& parents);
  Result<std::vector<PlannedMount>> MountsOf(const SnapshotRecord& snapshot);
  // Mounts the converted layers of a chain that are not (any more).
  Status EnsureMounted(const std::vector<SnapshotPtr>& chain);
  // Lets the layers below a new container know.
  void TellUse(const SnapshotRecord& container);
  Status RemoveFolder(uint64_t id);

  const std::string root_;
  const OverlayTraits traits_;
  SnapshotTable& table_;
  RemoteLayers& layers_;
  Logger& log_;
};

}  // namespace paceline::snapshotter
