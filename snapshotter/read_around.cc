#include "snapshotter/read_around.h"

#include <algorithm>

namespace paceline::snapshotter {

ReadAround::ReadAround(blocks::ImageReader& image, uint64_t window_bytes) : image_(image), window_bytes_(window_bytes) {
  for (size_t layer = 0; layer < image.layer_count(); ++layer) {
    is_asked_.emplace_back(image.index(layer).chunk_count());
  }
}

void ReadAround::Note(size_t layer, uint64_t offset_bytes, size_t bytes) {
  if (!is_active_ || window_bytes_ == 0 || bytes == 0) return;
  const blocks::LayerIndex& index = image_.index(layer);
  const uint64_t data_begin = blocks::kBlockBytes;
  const uint64_t data_end = uint64_t{index.header().first_meta_block()} * blocks::kBlockBytes;
  const uint64_t begin = std::max(offset_bytes, data_begin), end = std::min(offset_bytes + bytes, data_end);
  if (begin >= end) return;  // metadata
  const uint32_t first = index.FindChunk(static_cast<uint32_t>(begin / blocks::kBlockBytes));
  const uint32_t last = index.FindChunk(static_cast<uint32_t>((end - 1) / blocks::kBlockBytes));
  std::vector<blocks::ChunkId> wanted;
  {
    MutexLock lock(mutex_);
    std::vector<bool>& asked = is_asked_[layer];
    for (uint32_t chunk = first; chunk <= last; ++chunk) asked[chunk] = true;
    uint64_t behind = 0;
    for (uint32_t chunk = last + 1; chunk < asked.size() && behind < window_bytes_; ++chunk) {
      behind += index.chunk(chunk).content_bytes();
      if (asked[chunk]) continue;
      asked[chunk] = true;
      wanted.push_back({static_cast<uint32_t>(layer), chunk});
    }
  }
  if (!wanted.empty()) image_.Prefetch(wanted, blocks::FetchPriority::kPrefetch);
}

}  // namespace paceline::snapshotter
