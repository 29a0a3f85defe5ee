// Whether there is a snapshot of a key that may be used now, with all checks before its mount, and if not, why. The one
// place that decides it: docs/formats/dependency-snapshot.md, section 5, step 1.
//
// Called by recorder, node agent and `pacectl deps restore`. Blocks for the store, at most until the deadline.
#pragma once

#include <optional>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"
#include "lib/deps/snapshot_store.h"
#include "lib/deps/trust.h"

namespace paceline::deps {

enum class OfferState {
  kUsable,
  kNone,         // there is none
  kEnded,        // its time is over
  kQuarantined,  // it was put aside
  kDamaged,      // what the store gave is not what it should be
  kNotTrusted,   // no good signature, where one is required
  kUnavailable,  // the store did not answer, or refused: nobody knows
};

struct Offer {
  OfferState state = OfferState::kNone;
  Status why;                             // ok when usable, else what a person is told
  std::optional<FoundSnapshot> snapshot;  // absent for kNone and kUnavailable, and for a manifest that is damaged
};

Offer FindOffer(blocks::BlobStore& store, const std::string& key, const Trust& trust, WallTime now, Deadline deadline);

}  // namespace paceline::deps
