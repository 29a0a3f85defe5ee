// Puts the EROFS metadata of a mounted layer into the kernel's page cache of its file. EROFS reads inodes and
// directories through that cache, block by block and without reading ahead, so otherwise each 4 KiB of them costs
// whoever looks for a name a request to this process. Here they go down at once and are checked once.
//
// Called by ImageMount and the plugin after each mount of a layer, not on a thread that serves requests. Stateless;
// blocks for the disk.
#pragma once

#include "lib/blocks/engine/chunk_engine.h"
#include "lib/fusefs/session.h"

namespace paceline::snapshotter {

// Of more than this the rest is read on demand: the kernel may have better use for its memory.
inline constexpr uint64_t kMaxStoredMetadataBytes = uint64_t{64} << 20;

// `layer` of `image` is served by `session` as the file `number` (layer_files.h). After a failure what is missing is
// read on demand, as it is once the kernel has dropped pages.
Status StoreMetadataPages(fusefs::Session& session, uint64_t number, blocks::ImageReader& image, size_t layer);

}  // namespace paceline::snapshotter
