// The chunks that a start read, in the order of their first touch, as a small JSON document: what `pacectl image hotset
// record` saves and a later mount fetches first. Chunks are named by their layer's index, so a set is of use to every
// image that has the layer, and never applies to another conversion. Pure functions.
//
//   {"version": 1, "layers": ["sha256:...", ...], "accesses": [[layer, chunk, milliseconds], ...]}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/blocks/engine/access_log.h"
#include "lib/blocks/engine/fetch_queue.h"
#include "lib/blocks/format/digest.h"

namespace paceline::snapshotter {

struct HotSet {
  std::vector<blocks::Digest> layers;  // of indexes, bottom first
  std::vector<blocks::Access> accesses;
};

std::string EncodeHotSet(const HotSet& set);
// kInvalidArgument for what is none; entries beyond 4 million too.
Result<HotSet> ParseHotSet(std::string_view json);

// The chunks to fetch for an image with these layers, in order; what belongs to other layers is left out.
std::vector<blocks::ChunkId> ChunksFor(const HotSet& set, const std::vector<blocks::Digest>& layers);

}  // namespace paceline::snapshotter
