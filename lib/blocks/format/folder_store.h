// A store in a folder of the machine, or of a shared file system: docs/formats/block-image.md, section 4. What
// `file:///` means to pacectl; also what tests use.
//
// Any number of processes may write at once. A writer that is killed leaves a file in tmp/ at most, which the next one
// to open the store for writing removes. Thread-safe. Deadlines are not kept: a local disk has no use for them.
#pragma once

#include <memory>
#include <string>

#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"

namespace paceline::blocks {

enum class StoreAccess { kRead, kWrite };

// kWrite makes the folder, and those above it, when it is not there; kRead answers kNotFound. kInvalidArgument for a
// folder that holds something else, kUnimplemented for a store of another version.
Result<std::unique_ptr<BlobStore>> OpenFolderStore(const std::string& folder, StoreAccess access);

}  // namespace paceline::blocks
