// Which snapshots the nodes have mounted, so that nobody removes their bytes: notes in the store that end by themselves
// when their node is gone. docs/formats/dependency-snapshot.md, section 3.1.
//
// Written by node agents, read by the collector. Stateless; calls block for the store, at most until their deadline.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"

namespace paceline::deps {

// For how long a use holds, unless it is written anew.
inline constexpr Duration kUseLife = std::chrono::hours(24 * 7);

struct Use {
  std::string tag;
  blocks::Digest snapshot;  // of its manifest
  std::string node;
  WallTime until;
};

// All of a store, by tag; those of one node when `node` is not "". A damaged one is left out: it protects nothing.
// kUnimplemented for a store that cannot list.
Result<std::vector<Use>> ListUses(blocks::BlobStore& store, const std::string& node, Deadline deadline);

// kNotFound when the snapshot's manifest is not there.
Status WriteUse(blocks::BlobStore& store, const blocks::Digest& snapshot, const std::string& node, WallTime until,
                Deadline deadline);

}  // namespace paceline::deps
