// Writes the metadata of a layer's EROFS image: superblock, inodes, directories, attributes, links. File contents lie
// in front of it and are there already. docs/formats/block-image.md, section 2.
//
// Two passes over the tree: places for everything, then the bytes in order, so that nothing but the places is held in
// memory. Deterministic: depends on the tree and the options only. Called by the layer converter. Pure but for the
// sink.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "lib/base/result.h"
#include "lib/blocks/format/digest.h"
#include "lib/blocks/image/layer_tree.h"

namespace paceline::blocks {

struct ErofsMetadata {
  uint32_t meta_blocks = 0;  // block 0 not counted
  uint64_t inodes = 0;
  uint64_t file_bytes = 0;
};

// Gives block 0 and then all metadata blocks to `sink`, in order and in pieces of whole blocks. `data_blocks` lie
// between the two in the image. kResourceExhausted for more metadata than the format holds, kInvalidArgument for what
// EROFS cannot hold (device numbers and attributes that are too large); a failure of `sink` is passed on.
Result<ErofsMetadata> WriteErofsMetadata(const LayerTree& tree, uint32_t data_blocks, const Digest& diff_id,
                                         const std::function<Status(std::string_view)>& sink);

}  // namespace paceline::blocks
