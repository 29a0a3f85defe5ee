#include "lib/blocks/image/chunk_cutter.h"

#include <algorithm>

#include "lib/blocks/format/layer_index.h"

namespace paceline::blocks {

ChunkCutter::ChunkCutter(uint32_t max_chunk_blocks, Sink sink)
    : max_bytes_(uint64_t{max_chunk_blocks} * kBlockBytes), sink_(std::move(sink)) {
  open_.reserve(max_bytes_);
}

Status ChunkCutter::Cut() {
  if (open_.empty()) return Status();
  std::string content;
  content.reserve(max_bytes_);
  std::swap(content, open_);
  return sink_(std::move(content));
}

Status ChunkCutter::BeginFile(std::string_view directory, uint64_t size_bytes) {
  const bool is_elsewhere = directory != directory_;
  if (is_elsewhere) directory_ = directory;
  const bool is_large = size_bytes > max_bytes_;
  const bool fits = !is_large && open_.size() + size_bytes <= max_bytes_;
  const bool ends_directory = is_elsewhere && open_.size() >= max_bytes_ / 4;
  return fits && !ends_directory ? Status() : Cut();
}

Result<uint32_t> ChunkCutter::Append(std::string_view bytes) {
  const uint64_t blocks = (bytes.size() + kBlockBytes - 1) / kBlockBytes;
  // Room is left for the metadata, whose blocks have numbers, too.
  if (next_block_ + blocks > UINT32_MAX - kMaxMetaBlocks) {
    return ResourceExhaustedError("a layer too large for the format: file contents of more than 15 TiB");
  }
  const uint32_t first = next_block_;
  next_block_ += static_cast<uint32_t>(blocks);
  while (!bytes.empty()) {
    const size_t size = static_cast<size_t>(std::min<uint64_t>(bytes.size(), max_bytes_ - open_.size()));
    open_ += bytes.substr(0, size);
    bytes.remove_prefix(size);
    if (open_.size() % kBlockBytes != 0) open_.resize(open_.size() + kBlockBytes - open_.size() % kBlockBytes, '\0');
    if (open_.size() == max_bytes_) RETURN_IF_ERROR(Cut());
  }
  return first;
}

Status ChunkCutter::Finish() { return Cut(); }

}  // namespace paceline::blocks
