#include "snapshotter/plugin/mount_plan.h"

namespace paceline::snapshotter {
namespace {

PlannedMount Bind(const std::string& folder, bool is_writable) {
  return {"bind", folder, {is_writable ? "rw" : "ro", "rbind"}};
}

}  // namespace

std::string SnapshotFolder(const std::string& root, uint64_t id) { return root + "/snapshots/" + std::to_string(id); }
std::string SnapshotFiles(const std::string& root, uint64_t id) { return SnapshotFolder(root, id) + "/fs"; }
std::string SnapshotWork(const std::string& root, uint64_t id) { return SnapshotFolder(root, id) + "/work"; }

std::vector<PlannedMount> PlanMounts(const std::string& root, const SnapshotRecord& snapshot,
                                     const std::vector<uint64_t>& parents, const OverlayTraits& traits) {
  const bool is_active = snapshot.kind == SnapshotKind::kActive;
  // An overlay needs two folders.
  if (parents.empty()) return {Bind(SnapshotFiles(root, snapshot.id), is_active)};
  if (!is_active && parents.size() == 1) return {Bind(SnapshotFiles(root, parents.front()), false)};
  PlannedMount overlay{"overlay", "overlay", {}};
  if (traits.has_index) overlay.options.push_back("index=off");
  if (traits.needs_user_xattr) overlay.options.push_back("userxattr");
  if (is_active) {
    overlay.options.push_back("workdir=" + SnapshotWork(root, snapshot.id));
    overlay.options.push_back("upperdir=" + SnapshotFiles(root, snapshot.id));
  }
  std::string lower = "lowerdir=";
  for (const uint64_t parent : parents) {
    if (lower.back() != '=') lower += ':';
    lower += SnapshotFiles(root, parent);
  }
  overlay.options.push_back(lower);
  return {overlay};
}

}  // namespace paceline::snapshotter
