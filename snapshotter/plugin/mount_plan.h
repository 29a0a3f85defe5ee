// Which mounts give containerd a snapshot: binds and overlays over the folders of its chain, as containerd's own
// overlayfs snapshotter would ask for them, so that every differ and runtime understands them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "snapshotter/plugin/snapshot_record.h"

namespace paceline::snapshotter {

struct PlannedMount {
  std::string type, source;
  std::vector<std::string> options;
  friend bool operator==(const PlannedMount&, const PlannedMount&) = default;
};

// What this kernel's overlayfs wants to be told.
struct OverlayTraits {
  bool has_index = false;         // "index=off": with an index a lower folder may not be used twice
  bool needs_user_xattr = false;  // in a user namespace trusted.* is out of reach
};

std::string SnapshotFolder(const std::string& root, uint64_t id);
// What a snapshot adds or shows: ROOT/snapshots/ID/fs.
std::string SnapshotFiles(const std::string& root, uint64_t id);
std::string SnapshotWork(const std::string& root, uint64_t id);

// `parents`: ids of the snapshots below, nearest first.
std::vector<PlannedMount> PlanMounts(const std::string& root, const SnapshotRecord& snapshot,
                                     const std::vector<uint64_t>& parents, const OverlayTraits& traits);

}  // namespace paceline::snapshotter
