// Converts an image: each layer that the store does not hold yet, then the manifest that binds them to the original.
// docs/formats/block-image.md. A run that dies at any moment leaves whole layers or nothing: the next one goes on from
// there.
//
// Called by pacectl and by whoever converts for a cluster. Blocks for source and store, for minutes. Several runs, in
// several processes, may convert into one store.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/format/manifest.h"
#include "lib/blocks/image/image_source.h"
#include "lib/blocks/image/layer_converter.h"

namespace paceline::blocks {

struct LayerReport {
  ConvertedLayer converted;  // of a layer that was there, `layer` alone is filled
  bool was_there = false;
  uint64_t source_bytes = 0;
};

struct ImageReport {
  SourceImage source;
  Descriptor manifest;  // of the converted image
  std::string tag;
  std::vector<LayerReport> layers;  // bottom first
};

struct ImageConversion {
  Platform platform;
  ConvertOptions options;
  ConvertProgress* progress = nullptr;
  // Told before each layer: its number, counted from 0. May be empty.
  std::function<void(const SourceImage& image, size_t layer)> on_layer;
};

// The errors of ConvertLayer, of the source and of the store; the message names the layer.
Result<ImageReport> ConvertImage(ImageSource& source, BlobStore& store, const ImageConversion& conversion,
                                 const Clock& clock, const std::stop_token& stop);

}  // namespace paceline::blocks
