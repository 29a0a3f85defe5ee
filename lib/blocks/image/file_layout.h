// Brings one file from the tar stream into the image's data blocks: finds its holes and says where the rest lies.
// docs/formats/block-image.md, section 2. Called by the layer converter; blocks with the stream and with the cutter's
// sink; holds one unit (64 KiB, more for files over 2 GiB) in memory.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/result.h"
#include "lib/blocks/image/chunk_cutter.h"
#include "lib/blocks/image/layer_tree.h"
#include "lib/blocks/image/tar_reader.h"

namespace paceline::blocks {

// `entry` is what `tar` has just given. kResourceExhausted for a file of more than 2 TiB; the errors of both sides are
// passed on.
Result<FilePlacement> LayOutFile(const TarEntry& entry, std::string_view directory, TarReader& tar,
                                 ChunkCutter& cutter);

// Two to the power of this is the unit of a file with holes. Pure.
Result<uint32_t> HoleUnitBits(uint64_t size_bytes);

}  // namespace paceline::blocks
