// The index of one converted layer: which piece of which blob holds which blocks of its EROFS image, and the image's
// metadata. docs/formats/block-image.md, section 3, is the byte layout.
//
// Writers fill a LayerIndexParts and encode it; readers parse a blob whose digest they have checked and get a
// LayerIndex whose every number has been checked. Parsed indexes are immutable: any thread may read them. Nothing here
// does I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/blocks/format/digest.h"
#include "lib/blocks/format/zstd_codec.h"

namespace paceline::blocks {

inline constexpr uint32_t kBlockBytes = 4096;
inline constexpr uint32_t kMaxChunkBlocks = 1024;
inline constexpr uint32_t kMaxBlobs = 4096;
inline constexpr uint32_t kMaxChunks = 64U << 20;
inline constexpr uint32_t kMaxMetaBlocks = 1U << 20;

// A data blob.
struct BlobEntry {
  Digest digest;
  uint64_t size_bytes = 0;
  friend bool operator==(const BlobEntry&, const BlobEntry&) = default;
};

// A piece of the image that is fetched, checked and cached as a whole.
struct Chunk {
  uint32_t first_block = 0;  // in the EROFS image; 1 for the first chunk
  uint32_t blocks = 0;
  uint32_t blob = 0;          // into LayerIndex::blobs()
  uint32_t stored_bytes = 0;  // at offset_bytes of that blob
  uint64_t offset_bytes = 0;
  Digest digest;  // of the content

  uint64_t content_bytes() const { return uint64_t{blocks} * kBlockBytes; }
  bool is_compressed() const { return stored_bytes < content_bytes(); }
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

// What the header says of a layer.
struct LayerIndexHeader {
  uint32_t max_chunk_blocks = 0;
  uint32_t data_blocks = 0;  // image blocks 1 .. data_blocks: covered by chunks
  uint32_t meta_blocks = 0;  // the blocks behind them; with block 0 in front they are the metadata
  uint64_t inodes = 0;
  uint64_t file_bytes = 0;  // sum of the sizes of regular files
  Digest metadata_digest;   // decompressed
  Digest diff_id;

  uint32_t first_meta_block() const { return 1 + data_blocks; }
  uint64_t metadata_bytes() const { return (uint64_t{1} + meta_blocks) * kBlockBytes; }
  // Of the whole EROFS image.
  uint64_t image_bytes() const { return (uint64_t{1} + data_blocks + meta_blocks) * kBlockBytes; }
};

class LayerIndex {
 public:
  // Checks everything that section 6, step 3, asks for except what only the manifest knows. kUnimplemented for another
  // major version or an unknown flag, kDataLoss for all else. Keeps `bytes` for as long as it lives.
  static Result<LayerIndex> Parse(std::shared_ptr<const std::string> bytes);

  const LayerIndexHeader& header() const { return header_; }
  const std::vector<BlobEntry>& blobs() const { return blobs_; }

  uint32_t chunk_count() const { return static_cast<uint32_t>(first_blocks_.size()); }
  // `number` < chunk_count().
  Chunk chunk(uint32_t number) const;
  // The chunk that holds an image block; `block` must be in 1 .. data_blocks.
  uint32_t FindChunk(uint32_t block) const;

  // zstd frames; they lie in the index itself.
  std::string_view stored_metadata() const;
  // Decompresses the metadata (block 0, then the metadata blocks) and hands it on in pieces of at most 128 KiB.
  // kDataLoss when length or digest is wrong: the pieces handed on until then must be thrown away. A failure of
  // `consumer` is passed on.
  Status UnpackMetadata(const std::function<Status(std::string_view)>& consumer) const;
  // The same, whole.
  Result<std::string> Metadata() const;

 private:
  LayerIndex() = default;

  std::shared_ptr<const std::string> bytes_;
  LayerIndexHeader header_;
  uint64_t chunk_table_ = 0, metadata_ = 0;  // offsets in bytes_
  std::vector<BlobEntry> blobs_;
  std::vector<uint32_t> first_blocks_;
};

// What an index is made of. `chunks` are in the order of image blocks; their first_block is implied.
struct LayerIndexParts {
  LayerIndexHeader header;
  std::vector<BlobEntry> blobs;
  std::vector<Chunk> chunks;
  std::string stored_metadata;
};
// The bytes of section 3. Does not check that they make sense; Parse does.
std::string EncodeLayerIndex(const LayerIndexParts& parts);

// Turns stored chunks into their content. One per thread: it keeps a decompression context. Does not block.
class ChunkDecoder {
 public:
  // `stored` are the chunk's stored bytes. On ok `content` holds chunk.content_bytes() bytes whose digest is right;
  // kDataLoss otherwise. Never unpacks more than the chunk may hold.
  Status Decode(const Chunk& chunk, std::string_view stored, std::string* content);

 private:
  ZstdDecoder zstd_;
};

}  // namespace paceline::blocks
