// Snapshots that were found wrong are put aside: nobody restores them any more, the next install is recorded in their
// place, and until then a person can look at them and lift it. docs/formats/dependency-snapshot.md, section 2.4.
//
// Called by the node agent and by pacectl. Stateless; calls block for the store, at most until their deadline.
#pragma once

#include <optional>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"

namespace paceline::deps {

struct QuarantineOrder {
  std::string key;
  std::string ns;
  // Of the manifest that was found wrong; absent when it could not be read at all.
  std::optional<blocks::Digest> snapshot;
  std::string why;  // a sentence
  std::string by;   // node or user
};

// False when the key's tag leads to something else by now, to nothing, or to one that is in quarantine already: then
// nothing was to be done. Idempotent.
Result<bool> PutAside(blocks::BlobStore& store, const QuarantineOrder& order, WallTime now, Deadline deadline);

// The snapshot is offered again. kNotFound when none is in quarantine, or when its manifest is gone.
Status LiftQuarantine(blocks::BlobStore& store, const std::string& key, Deadline deadline);

}  // namespace paceline::deps
