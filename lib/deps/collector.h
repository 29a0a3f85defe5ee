// Removes what nobody will restore any more from a store: snapshots that have expired, were superseded, have lost their
// key's tag or were in quarantine for long, never one that a node uses, and the blobs that were theirs alone.
// docs/formats/dependency-snapshot.md, section 3.1.
//
// Called by node agents, each of which tries now and then, and by `pacectl deps gc`. What is removed is a pure function
// of what the store holds, so whoever is cut off is followed by the next one.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blocks/format/folder_store.h"
#include "lib/deps/snapshot_store.h"
#include "lib/deps/uses.h"

namespace paceline::deps {

enum class RemovalReason { kExpired, kSuperseded, kOrphaned, kQuarantined };
std::string_view RemovalReasonText(RemovalReason reason);

// What a store holds of snapshots.
struct Inventory {
  std::vector<FoundSnapshot> under_keys;   // by the tags of their keys, those in quarantine too
  std::set<std::string> broken_keys;       // whose tags lead to what cannot be read
  std::vector<FoundSnapshot> with_images;  // by the tags of their block images; records may be empty
  std::vector<Use> uses;
};

struct Removal {
  FoundSnapshot snapshot;
  RemovalReason reason = RemovalReason::kExpired;
};
struct CollectionPlan {
  std::vector<Removal> removals;
  std::vector<std::string> stale_uses;  // tags
  uint64_t in_use = 0;                  // that would be removed, were they not used
};
CollectionPlan PlanCollection(const Inventory& inventory, WallTime now, Duration grace, Duration quarantine_life);

struct CollectOptions {
  Duration grace = std::chrono::hours(24);
  Duration quarantine_life = std::chrono::hours(24 * 7);
  blocks::CollectMode mode = blocks::CollectMode::kRemove;
  // Nothing is done when somebody has collected this store within this time.
  Duration min_interval{0};
};
struct CollectReport {
  bool was_due = true;
  std::map<RemovalReason, uint64_t> removed;  // snapshots
  std::vector<std::string> removed_keys;      // with the reason, for a log
  uint64_t in_use = 0;
  std::vector<std::string> broken;
  blocks::CollectedBlobs blobs;
};

// Of a folder store; recorders meet in `lease_folder`. kAborted when somebody records or collects now. kDataLoss, with
// the snapshots removed and the blobs left, when a tag cannot be read: then nobody knows what it needs.
Result<CollectReport> CollectStore(const std::string& folder, const std::string& lease_folder,
                                   const CollectOptions& options, const Clock& clock);

}  // namespace paceline::deps
