#include "lib/deps/quarantine.h"

#include "lib/blocks/format/manifest.h"
#include "lib/deps/snapshot_store.h"

namespace paceline::deps {
namespace {

// More than a sentence says nothing more.
constexpr size_t kMaxWhyBytes = 1024;

}  // namespace

Result<bool> PutAside(blocks::BlobStore& store, const QuarantineOrder& order, WallTime now, Deadline deadline) {
  const std::string tag = SnapshotTag(order.key);
  // Somebody may have recorded it anew since it could not be read.
  if (!order.snapshot && FindSnapshot(store, order.key, deadline).ok()) return false;
  const Result<blocks::StoredManifest> there = store.GetManifest(tag, deadline);
  if (!there.ok() && there.status().code() == StatusCode::kNotFound) return false;
  const bool is_unreadable = !there.ok() && there.status().code() == StatusCode::kDataLoss;
  if (!there.ok() && !is_unreadable) return there.status();
  SnapshotManifest aside;
  if (there.ok()) {
    if (order.snapshot && there->descriptor.digest != *order.snapshot) return false;
    if (Result<SnapshotManifest> manifest = ParseSnapshotManifest(there->bytes); manifest.ok()) {
      if (manifest->quarantine) return false;
      aside = *std::move(manifest);
    } else if (order.snapshot) {
      return manifest.status();  // these bytes have been read as a snapshot before
    }
  } else if (order.snapshot) {
    return there.status();
  }
  Quarantine quarantine{order.why.substr(0, kMaxWhyBytes), order.by, FormatRfc3339(now), std::nullopt};
  if (there.ok()) quarantine.subject = {blocks::kManifestMediaType, there->descriptor.digest, there->bytes.size(), {}};
  if (aside.key.empty()) {
    // Nothing that could be named: config and layer are the empty ones.
    aside.ns = order.ns;
    aside.created = FormatRfc3339(now);
    ASSIGN_OR_RETURN(aside.record,
                     blocks::WriteWholeBlob(store, blocks::kEmptyMediaType, blocks::kEmptyConfig, deadline));
  }
  // Whatever it said of itself, this is where it lay.
  aside.key = order.key;
  aside.quarantine = std::move(quarantine);
  RETURN_IF_ERROR(store.PutManifest(tag, blocks::kManifestMediaType, EncodeSnapshotManifest(aside), deadline).status());
  return true;
}

Status LiftQuarantine(blocks::BlobStore& store, const std::string& key, Deadline deadline) {
  ASSIGN_OR_RETURN(const FoundSnapshot found, FindSnapshot(store, key, deadline));
  if (!found.manifest.quarantine) return NotFoundError("the snapshot " + key.substr(0, 12) + " is not in quarantine");
  if (!found.manifest.quarantine->subject) {
    return NotFoundError("nothing is left of the snapshot that could be put back");
  }
  ASSIGN_OR_RETURN(const blocks::StoredManifest original,
                   store.GetManifest(found.manifest.quarantine->subject->digest.ToString(), deadline));
  return store.PutManifest(SnapshotTag(key), blocks::kManifestMediaType, original.bytes, deadline).status();
}

}  // namespace paceline::deps
