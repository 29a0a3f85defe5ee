// Snapshots in a store: found by key, listed, published, and told apart from those that have ended. docs/formats/
// dependency-snapshot.md, sections 2 and 3.
//
// Called by recorder, restorer and pacectl. Stateless; all calls block for the store, at most until their deadline.
#pragma once

#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/image/chunk_pipeline.h"
#include "lib/deps/snapshot.h"

namespace paceline::deps {

struct FoundSnapshot {
  blocks::Descriptor descriptor;  // of the snapshot manifest
  SnapshotManifest manifest;
  SnapshotRecord record;
};

// The snapshot of a key, with the checks of section 5, step 1, but for its end. kNotFound; kDataLoss.
Result<FoundSnapshot> FindSnapshot(blocks::BlobStore& store, const std::string& key, Deadline deadline);

// Those of a namespace, or ("") all; newest first. What cannot be read is left out and said in `broken`.
struct SnapshotList {
  std::vector<FoundSnapshot> snapshots;
  std::vector<std::string> broken;
};
Result<SnapshotList> ListSnapshots(blocks::BlobStore& store, const std::string& ns, Deadline deadline);

// Record, manifests and tags, in the order of section 3; the layer must be in the store. `snapshot` has everything but
// the record's descriptor, which is made here.
Result<FoundSnapshot> PublishSnapshot(blocks::BlobStore& store, SnapshotManifest snapshot, const SnapshotRecord& record,
                                      Deadline deadline);

// Takes the key's tag away first, then those of the image and of its hot set: from then on nobody finds the snapshot.
Status RemoveSnapshot(blocks::BlobStore& store, const FoundSnapshot& snapshot, Deadline deadline);

// The digest of the block image manifest that follows from a snapshot; it is put into the store if it is missing there.
Result<blocks::Digest> EnsureDerivedImage(blocks::BlobStore& store, const FoundSnapshot& snapshot, Deadline deadline);

// Chunks of the newest snapshots of the same namespace and directories, so that they are not stored again.
Result<blocks::KnownChunks> LoadKnownChunks(blocks::BlobStore& store, const std::string& ns,
                                            const std::vector<std::string>& capture, Deadline deadline);

bool HasEnded(const SnapshotRecord& record, WallTime now);

}  // namespace paceline::deps
