// Reads converted images back and checks all of it: manifests, indexes, metadata, every chunk, every blob. For `pacectl
// image verify`, and to make the plain EROFS file of a layer out of its pieces.
//
// Blocks for the store. Bounded memory: the index and the metadata of a layer, a piece of its data.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/format/layer_index.h"
#include "lib/blocks/format/manifest.h"

namespace paceline::blocks {

struct CheckedLayer {
  LayerIndexHeader header;
  uint64_t chunks = 0;
  uint64_t index_bytes = 0;   // stored
  uint64_t stored_bytes = 0;  // of data blobs
};

struct CheckOptions {
  Duration store_limit = std::chrono::minutes(2);
  // Told the stored bytes that were checked since the last call. May be empty.
  std::function<void(uint64_t bytes)> on_progress;
  // Given each chunk's content in the order of the image. May be empty.
  std::function<Status(std::string_view)> on_content;
  // Given block 0, then the metadata blocks, before the contents; in pieces. May be empty.
  std::function<Status(std::string_view)> on_metadata;
};

// The index of a layer, read and checked against its descriptors: section 6, steps 2 and 3. kDataLoss, kNotFound.
Result<LayerIndex> ReadLayerIndex(BlobStore& store, const BlockLayer& layer, Deadline deadline);

// All of a layer. kDataLoss names the chunk or blob that is wrong; kNotFound what is missing.
Result<CheckedLayer> CheckLayer(BlobStore& store, const BlockLayer& layer, const CheckOptions& options,
                                const Clock& clock, const std::stop_token& stop);

// Writes the EROFS image of a layer to a file, which is made or replaced: what the kernel can mount without any of us.
Status WriteLayerImage(BlobStore& store, const BlockLayer& layer, const std::string& path, const Clock& clock,
                       const std::stop_token& stop);

}  // namespace paceline::blocks
