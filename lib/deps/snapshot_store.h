// Snapshots in a store: found by key, listed, published, and told apart from those that have ended. docs/formats/
// dependency-snapshot.md, sections 2 and 3.
//
// Called by recorder, restorer and pacectl. Stateless; all calls block for the store, at most until their deadline.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/image/chunk_pipeline.h"
#include "lib/deps/snapshot.h"
#include "lib/deps/trust.h"

namespace paceline::deps {

// One in quarantine is found as well: manifest.quarantine says so, and the record may then be empty.
struct FoundSnapshot {
  blocks::Descriptor descriptor;  // of the snapshot manifest; all zero when nothing could be read of it
  SnapshotManifest manifest;
  SnapshotRecord record;
};

// The snapshot of a key, with the checks of section 5, step 1, but for its end and its signature: FindOffer makes
// those. kNotFound; kDataLoss.
Result<FoundSnapshot> FindSnapshot(blocks::BlobStore& store, const std::string& key, Deadline deadline);

// Those of a namespace, or ("") all; newest first. What cannot be read is left out and said in `broken`.
struct SnapshotList {
  std::vector<FoundSnapshot> snapshots;
  std::vector<std::string> broken;
};
Result<SnapshotList> ListSnapshots(blocks::BlobStore& store, const std::string& ns, Deadline deadline);

// Record, manifests, signature and tags, in the order of section 3; the layer must be in the store. `snapshot` has
// everything but the record's descriptor, which is made here. Not signed without a key.
Result<FoundSnapshot> PublishSnapshot(blocks::BlobStore& store, SnapshotManifest snapshot, const SnapshotRecord& record,
                                      const std::optional<blocks::SigningKey>& key, Deadline deadline);

// Takes the key's tag away first, then those of what belongs to it: from then on nobody finds the snapshot.
Status RemoveSnapshot(blocks::BlobStore& store, const FoundSnapshot& snapshot, Deadline deadline);
// The same without the key's tag, under which another snapshot may lie.
Status RemoveCompanions(blocks::BlobStore& store, const FoundSnapshot& snapshot, Deadline deadline);

// The digest of the block image manifest that follows from a snapshot; it is put into the store if it is missing there.
Result<blocks::Digest> EnsureDerivedImage(blocks::BlobStore& store, const FoundSnapshot& snapshot, Deadline deadline);

// Chunks of the newest snapshots of the same namespace and directories, so that they are not stored again. Where
// signatures are required, of signed ones: others may say of chunks that they lie where they do not.
Result<blocks::KnownChunks> LoadKnownChunks(blocks::BlobStore& store, const std::string& ns,
                                            const std::vector<std::string>& capture, const Trust& trust,
                                            Deadline deadline);

bool HasEnded(const SnapshotRecord& record, WallTime now);

}  // namespace paceline::deps
