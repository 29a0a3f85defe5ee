// From a converted image's name in a store to something that can be read: the checks that docs/formats/block-image.md,
// section 6, asks for before anything of it reaches the kernel.
//
// Called once per mount; blocks for the store, and needs none for what an earlier start kept in the cache.
#pragma once

#include <memory>
#include <string>

#include "lib/blocks/engine/chunk_engine.h"
#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/format/manifest.h"

namespace paceline::snapshotter {

// The manifest `digest` of a converted image, from `manifests_folder` or the store; kept in the folder for next time.
Result<blocks::BlockImageManifest> LoadManifest(blocks::BlobStore& store, const blocks::Digest& digest,
                                                const std::string& manifests_folder, Deadline deadline);

// Opens all layers of `image`: kDataLoss for an index or metadata that do not fit the manifest, kNotFound when the
// store lacks one.
Result<std::unique_ptr<blocks::ImageReader>> OpenImage(const blocks::BlockImageManifest& image,
                                                       std::shared_ptr<blocks::BlobStore> store,
                                                       const blocks::ChunkCache& cache, blocks::ChunkEngine& engine,
                                                       Deadline deadline);

}  // namespace paceline::snapshotter
