// Other nodes as the engine sees them: somebody who may have chunks, and is not believed. lib/blocks/peers asks them
// over the network.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/blocks/engine/fetch_queue.h"
#include "lib/blocks/format/layer_index.h"

namespace paceline::blocks {

// Chunks of one layer and one blob that are asked of other nodes; borrowed for the call.
struct PeerWant {
  const Digest& layer;  // of the index
  const LayerIndex& index;
  const std::vector<uint32_t>& chunks;  // in the order of their offsets
  FetchPriority priority = FetchPriority::kDemand;
};

// Other nodes that may hold chunks. Thread-safe.
class ChunkPeers {
 public:
  virtual ~ChunkPeers() = default;

  // Called with what came for `chunks[place]`; false: these are not its bytes, whoever sent them is not to be believed.
  using Take = std::function<bool(size_t place, std::string content)>;
  // Asks other nodes and hands on what they give, in any order and on the calling thread. What is not handed on, for
  // whatever reason, is asked of the origin. Blocks, for a small part of `deadline`.
  virtual void Fetch(const PeerWant& want, const Take& take, Deadline deadline) = 0;

  // So long the origin took to give so much content: peers that are slower are not worth asking.
  virtual void NoteOrigin(uint64_t content_bytes, Duration elapsed) = 0;
};

}  // namespace paceline::blocks
