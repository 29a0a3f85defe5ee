// A store in a folder of the machine, or of a shared file system: docs/formats/block-image.md, section 4. What
// `file:///` means to pacectl; also what tests use.
//
// Any number of processes may write at once. A writer that is killed leaves a file in tmp/ at most, which the next one
// to open the store for writing removes. Thread-safe. Deadlines are not kept: a local disk has no use for them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"

namespace paceline::blocks {

enum class StoreAccess { kRead, kWrite };

// kWrite makes the folder, and those above it, when it is not there; kRead answers kNotFound. kInvalidArgument for a
// folder that holds something else, kUnimplemented for a store of another version.
Result<std::unique_ptr<BlobStore>> OpenFolderStore(const std::string& folder, StoreAccess access);

struct CollectedBlobs {
  uint64_t kept = 0, removed = 0, removed_bytes = 0;
  uint64_t young = 0;  // that no tag leads to, left alone because of `grace`
};
enum class CollectMode { kRemove, kDryRun };

// Removes the blobs that no manifest of any tag leads to and that are older than `grace`: younger ones may belong to a
// writer that has not come to its tag yet. Whoever writes without that bound must be kept out by the caller. kDataLoss,
// and nothing is removed, when a tag's manifest cannot be read: then nobody knows what it needs.
Result<CollectedBlobs> CollectFolderStore(const std::string& folder, Duration grace, CollectMode mode,
                                          const Clock& clock);

}  // namespace paceline::blocks
