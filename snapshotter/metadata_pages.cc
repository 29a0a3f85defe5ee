#include "snapshotter/metadata_pages.h"

#include <algorithm>
#include <string>

#include "snapshotter/layer_files.h"

namespace paceline::snapshotter {
namespace {

constexpr uint64_t kPieceBytes = 256 << 10;

}  // namespace

Status StoreMetadataPages(fusefs::Session& session, uint64_t number, blocks::ImageReader& image, size_t layer) {
  const blocks::LayerIndexHeader& header = image.index(layer).header();
  const uint64_t begin = uint64_t{header.first_meta_block()} * blocks::kBlockBytes;
  const uint64_t end = std::min(header.image_bytes(), begin + kMaxStoredMetadataBytes);
  std::string piece;
  for (uint64_t at = begin; at < end; at += piece.size()) {
    piece.resize(std::min(kPieceBytes, end - at));
    RETURN_IF_ERROR(image.Read(layer, at, piece));
    RETURN_IF_ERROR(session.StorePages(number + kFirstLayerInode, at, piece));
  }
  return Status();
}

}  // namespace paceline::snapshotter
