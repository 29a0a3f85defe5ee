#include "lib/deps/collector.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/filesystem.h"
#include "lib/base/json.h"
#include "lib/blocks/format/manifest.h"
#include "lib/deps/lease.h"

namespace paceline::deps {
namespace {

constexpr char kImageTagPrefix[] = "paceline-image-v1-";
constexpr char kCollectedName[] = "collected";
constexpr size_t kMaxCollectedBytes = 4096;

// Unknown times are those of now: nothing is removed on their word.
WallTime TimeOr(const std::string& text, WallTime now) { return ParseRfc3339(text).value_or(now); }

std::optional<RemovalReason> ReasonUnderKey(const FoundSnapshot& snapshot, WallTime now, Duration grace,
                                            Duration quarantine_life) {
  if (const auto& quarantine = snapshot.manifest.quarantine; quarantine) {
    if (TimeOr(quarantine->at, now) + quarantine_life <= now) return RemovalReason::kQuarantined;
    return std::nullopt;
  }
  if (snapshot.record.expires + grace <= now) return RemovalReason::kExpired;
  return std::nullopt;
}

// Tags of block images whose subject is a snapshot; images of containers may lie in the same store.
Result<std::vector<FoundSnapshot>> SnapshotsWithImages(blocks::BlobStore& store, Deadline deadline) {
  ASSIGN_OR_RETURN(const std::vector<std::string> tags, store.ListTags(kImageTagPrefix, deadline));
  std::vector<FoundSnapshot> found;
  for (const std::string& tag : tags) {
    const std::string digest = "sha256:" + tag.substr(std::string_view(kImageTagPrefix).size());
    if (!blocks::ParseDigest(digest).ok()) continue;
    const Result<blocks::StoredManifest> manifest = store.GetManifest(digest, deadline);
    if (!manifest.ok() && IsRetryable(manifest.status())) return manifest.status();
    if (!manifest.ok()) continue;  // an image's original is not in the store
    Result<SnapshotManifest> parsed = ParseSnapshotManifest(manifest->bytes);
    if (parsed.ok() && !parsed->quarantine) found.push_back({manifest->descriptor, *std::move(parsed), {}});
  }
  return found;
}

Result<Inventory> TakeInventory(blocks::BlobStore& store, Deadline deadline, std::vector<std::string>* broken) {
  Inventory inventory;
  // In this order: what is published meanwhile has its image's tag before its key's.
  ASSIGN_OR_RETURN(inventory.with_images, SnapshotsWithImages(store, deadline));
  ASSIGN_OR_RETURN(SnapshotList list, ListSnapshots(store, "", deadline));
  inventory.under_keys = std::move(list.snapshots);
  *broken = list.broken;
  const std::string prefix = kTagPrefix;
  for (const std::string& line : list.broken) {
    inventory.broken_keys.insert(line.substr(prefix.size(), line.find(':') - prefix.size()));
  }
  ASSIGN_OR_RETURN(inventory.uses, ListUses(store, "", deadline));
  return inventory;
}

Status Remove(blocks::BlobStore& store, const Removal& removal, Deadline deadline) {
  const bool is_under_key = removal.reason == RemovalReason::kExpired || removal.reason == RemovalReason::kQuarantined;
  return is_under_key ? RemoveSnapshot(store, removal.snapshot, deadline)
                      : RemoveCompanions(store, removal.snapshot, deadline);
}

bool IsDue(const std::string& lease_folder, Duration min_interval, WallTime now) {
  if (min_interval.count() <= 0) return true;
  const Result<std::string> text = RealFileSystem().ReadFile(lease_folder + "/" + kCollectedName, kMaxCollectedBytes);
  const Result<Json> json = text.ok() ? ParseJson(*text) : text.status();
  const Result<WallTime> last =
      json.ok() ? ParseRfc3339(JsonStringOr(*json, "at", "").value_or("")) : Result<WallTime>(json.status());
  // A time to come is a clock that was set.
  return !last.ok() || *last > now || *last + min_interval <= now;
}

}  // namespace

std::string_view RemovalReasonText(RemovalReason reason) {
  switch (reason) {
    case RemovalReason::kExpired: return "expired";
    case RemovalReason::kSuperseded: return "superseded";
    case RemovalReason::kOrphaned: return "orphaned";
    case RemovalReason::kQuarantined: return "quarantined";
  }
  return "expired";
}

CollectionPlan PlanCollection(const Inventory& inventory, WallTime now, Duration grace, Duration quarantine_life) {
  CollectionPlan plan;
  std::set<blocks::Digest> used;
  for (const Use& use : inventory.uses) {
    if (use.until > now) {
      used.insert(use.snapshot);
    } else {
      plan.stale_uses.push_back(use.tag);
    }
  }
  const auto consider = [&](const FoundSnapshot& snapshot, RemovalReason reason) {
    if (used.contains(snapshot.descriptor.digest)) {
      ++plan.in_use;
    } else {
      plan.removals.push_back({snapshot, reason});
    }
  };
  std::map<std::string, const FoundSnapshot*> by_key;
  for (const FoundSnapshot& snapshot : inventory.under_keys) {
    by_key[snapshot.manifest.key] = &snapshot;
    const auto reason = ReasonUnderKey(snapshot, now, grace, quarantine_life);
    if (reason) consider(snapshot, *reason);
  }
  for (const FoundSnapshot& snapshot : inventory.with_images) {
    const std::string& key = snapshot.manifest.key;
    if (inventory.broken_keys.contains(key)) continue;  // it may be this one
    const auto current = by_key.find(key);
    if (current == by_key.end()) {
      if (TimeOr(snapshot.manifest.created, now) + grace <= now) consider(snapshot, RemovalReason::kOrphaned);
    } else if (current->second->descriptor.digest != snapshot.descriptor.digest) {
      const WallTime since = TimeOr(current->second->manifest.created, now);
      if (since + grace <= now) consider(snapshot, RemovalReason::kSuperseded);
    }
  }
  return plan;
}

Result<CollectReport> CollectStore(const std::string& folder, const std::string& lease_folder,
                                   const CollectOptions& options, const Clock& clock) {
  const bool removes = options.mode == blocks::CollectMode::kRemove;
  ASSIGN_OR_RETURN(const std::unique_ptr<blocks::BlobStore> store,
                   blocks::OpenFolderStore(folder, removes ? blocks::StoreAccess::kWrite : blocks::StoreAccess::kRead));
  const Result<Lease> lease =
      Lease::Take(lease_folder, kStoreLease, Lease::Mode::kExclusive, clock, Deadline::After(clock, Duration(0)));
  if (!lease.ok()) return lease.status();
  CollectReport report;
  report.was_due = IsDue(lease_folder, options.min_interval, clock.WallNow());
  if (!report.was_due) return report;
  const Deadline deadline = Deadline::Infinite();  // a folder has no use for one
  ASSIGN_OR_RETURN(const Inventory inventory, TakeInventory(*store, deadline, &report.broken));
  const CollectionPlan plan = PlanCollection(inventory, clock.WallNow(), options.grace, options.quarantine_life);
  report.in_use = plan.in_use;
  for (const Removal& removal : plan.removals) {
    if (removes) RETURN_IF_ERROR(Remove(*store, removal, deadline));
    ++report.removed[removal.reason];
    report.removed_keys.push_back(removal.snapshot.manifest.key.substr(0, 12) + " " +
                                  std::string(RemovalReasonText(removal.reason)));
  }
  for (const std::string& tag : plan.stale_uses) {
    if (removes) RETURN_IF_ERROR(store->RemoveTag(tag, deadline));
  }
  ASSIGN_OR_RETURN(report.blobs, blocks::CollectFolderStore(folder, options.grace, options.mode, clock));
  if (removes) {
    const std::string text = DumpJson({{"at", FormatRfc3339(clock.WallNow())}}) + "\n";
    RETURN_IF_ERROR(RealFileSystem().WriteFileAtomically(lease_folder + "/" + kCollectedName, text, 0644));
  }
  return report;
}

}  // namespace paceline::deps
