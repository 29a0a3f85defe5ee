#include "lib/blocks/format/layer_index.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/check.h"
#include "lib/blocks/format/little_endian.h"
#include "lib/blocks/format/zstd_codec.h"

namespace paceline::blocks {
namespace {

// docs/formats/block-image.md, section 3.
constexpr std::string_view kMagic("PCLBIDX\n", 8);
constexpr uint16_t kMajorVersion = 1, kMinorVersion = 0;
constexpr uint32_t kHeaderBytes = 256, kBlobEntryBytes = 48, kChunkEntryBytes = 48, kHeaderCrcAt = 252;
constexpr uint32_t kBlockBits = 12;
constexpr size_t kDigestBytes = 32;

struct RawHeader {
  LayerIndexHeader header;
  uint32_t blob_count = 0, chunk_count = 0, table_crc = 0;
  uint64_t blob_table = 0, chunk_table = 0, metadata = 0, stored_metadata_bytes = 0;
};

Status DamagedIndex(const std::string& what) { return DataLossError("layer index: " + what); }

Status CheckStart(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes) return DamagedIndex(fmt::format("{} bytes are less than a header", bytes.size()));
  if (bytes.substr(0, kMagic.size()) != kMagic) return DamagedIndex("not one (wrong magic number)");
  const uint16_t major = LoadLe<uint16_t>(&bytes[8]);
  if (major != kMajorVersion) {
    return UnimplementedError(
        fmt::format("layer index: format version {} is unknown to this version of Paceline", major));
  }
  if (Crc32c(bytes.substr(0, kHeaderCrcAt)) != LoadLe<uint32_t>(&bytes[kHeaderCrcAt])) {
    return DamagedIndex("wrong checksum of the header");
  }
  if (const uint32_t flags = LoadLe<uint32_t>(&bytes[16]); flags != 0) {
    return UnimplementedError(fmt::format("layer index: flags {:#x} are unknown to this version of Paceline", flags));
  }
  if (LoadLe<uint32_t>(&bytes[12]) != kHeaderBytes) return DamagedIndex("wrong length of the header");
  if (LoadLe<uint32_t>(&bytes[20]) != kBlockBits) return DamagedIndex("blocks are not of 4096 bytes");
  return Status();
}

RawHeader ReadHeader(const char* at) {
  RawHeader raw;
  raw.header.max_chunk_blocks = LoadLe<uint32_t>(at + 24);
  raw.blob_count = LoadLe<uint32_t>(at + 28);
  raw.chunk_count = LoadLe<uint32_t>(at + 32);
  raw.header.data_blocks = LoadLe<uint32_t>(at + 36);
  raw.header.meta_blocks = LoadLe<uint32_t>(at + 40);
  raw.table_crc = LoadLe<uint32_t>(at + 44);
  raw.blob_table = LoadLe<uint64_t>(at + 48);
  raw.chunk_table = LoadLe<uint64_t>(at + 56);
  raw.metadata = LoadLe<uint64_t>(at + 64);
  raw.stored_metadata_bytes = LoadLe<uint64_t>(at + 72);
  raw.header.inodes = LoadLe<uint64_t>(at + 80);
  raw.header.file_bytes = LoadLe<uint64_t>(at + 88);
  raw.header.metadata_digest = DigestFromBytes(at + 96);
  raw.header.diff_id = DigestFromBytes(at + 128);
  return raw;
}

// After this, sums of the header's numbers cannot overflow and the tables lie inside the index.
Status CheckNumbers(const RawHeader& raw, uint64_t total_bytes) {
  const LayerIndexHeader& header = raw.header;
  if (header.max_chunk_blocks < 1 || header.max_chunk_blocks > kMaxChunkBlocks) {
    return DamagedIndex(fmt::format("chunks of up to {} blocks", header.max_chunk_blocks));
  }
  if (raw.blob_count > kMaxBlobs) return DamagedIndex(fmt::format("{} blobs", raw.blob_count));
  if (raw.chunk_count > kMaxChunks) return DamagedIndex(fmt::format("{} chunks", raw.chunk_count));
  if (header.meta_blocks < 1 || header.meta_blocks > kMaxMetaBlocks) {
    return DamagedIndex(fmt::format("{} blocks of metadata", header.meta_blocks));
  }
  if (uint64_t{1} + header.data_blocks + header.meta_blocks > UINT32_MAX)
    return DamagedIndex("an image of too many blocks");
  const uint64_t blob_table_end = kHeaderBytes + uint64_t{raw.blob_count} * kBlobEntryBytes;
  const uint64_t chunk_table_end = blob_table_end + uint64_t{raw.chunk_count} * kChunkEntryBytes;
  if (raw.blob_table != kHeaderBytes || raw.chunk_table != blob_table_end || raw.metadata != chunk_table_end ||
      chunk_table_end > total_bytes || raw.stored_metadata_bytes != total_bytes - chunk_table_end) {
    return DamagedIndex(fmt::format("tables do not fit its {} bytes", total_bytes));
  }
  return Status();
}

Status CheckChunk(const Chunk& chunk, uint32_t number, const LayerIndexHeader& header,
                  const std::vector<BlobEntry>& blobs) {
  if (chunk.blocks < 1 || chunk.blocks > header.max_chunk_blocks) {
    return DamagedIndex(fmt::format("chunk {} of {} blocks", number, chunk.blocks));
  }
  if (chunk.blob >= blobs.size()) return DamagedIndex(fmt::format("chunk {} lies in no blob", number));
  if (chunk.stored_bytes < 1 || chunk.stored_bytes > chunk.content_bytes()) {
    return DamagedIndex(fmt::format("chunk {} has {} stored bytes", number, chunk.stored_bytes));
  }
  const uint64_t blob_bytes = blobs[chunk.blob].size_bytes;
  if (chunk.offset_bytes > blob_bytes || chunk.stored_bytes > blob_bytes - chunk.offset_bytes) {
    return DamagedIndex(fmt::format("chunk {} reaches beyond its blob", number));
  }
  return Status();
}

Chunk LoadChunk(const char* at) {
  Chunk chunk;
  chunk.blocks = LoadLe<uint16_t>(at);
  chunk.blob = LoadLe<uint16_t>(at + 2);
  chunk.stored_bytes = LoadLe<uint32_t>(at + 4);
  chunk.offset_bytes = LoadLe<uint64_t>(at + 8);
  chunk.digest = DigestFromBytes(at + 16);
  return chunk;
}

}  // namespace

Result<LayerIndex> LayerIndex::Parse(std::shared_ptr<const std::string> bytes) {
  const std::string& text = *bytes;
  RETURN_IF_ERROR(CheckStart(text));
  const RawHeader raw = ReadHeader(text.data());
  RETURN_IF_ERROR(CheckNumbers(raw, text.size()));
  const std::string_view tables = std::string_view(text).substr(raw.blob_table, raw.metadata - raw.blob_table);
  if (Crc32c(tables) != raw.table_crc) return DamagedIndex("wrong checksum of the tables");

  LayerIndex index;
  index.header_ = raw.header;
  index.chunk_table_ = raw.chunk_table;
  index.metadata_ = raw.metadata;
  for (uint32_t i = 0; i < raw.blob_count; ++i) {
    const char* at = &text[raw.blob_table + uint64_t{i} * kBlobEntryBytes];
    index.blobs_.push_back({DigestFromBytes(at), LoadLe<uint64_t>(at + kDigestBytes)});
  }
  uint64_t next_block = 1;
  index.first_blocks_.reserve(raw.chunk_count);
  for (uint32_t i = 0; i < raw.chunk_count; ++i) {
    const Chunk chunk = LoadChunk(&text[raw.chunk_table + uint64_t{i} * kChunkEntryBytes]);
    RETURN_IF_ERROR(CheckChunk(chunk, i, raw.header, index.blobs_));
    if (next_block > raw.header.data_blocks) return DamagedIndex(fmt::format("chunk {} lies behind the data", i));
    index.first_blocks_.push_back(static_cast<uint32_t>(next_block));
    next_block += chunk.blocks;
  }
  if (next_block != uint64_t{1} + raw.header.data_blocks) return DamagedIndex("chunks do not cover the data");
  index.bytes_ = std::move(bytes);
  return index;
}

Chunk LayerIndex::chunk(uint32_t number) const {
  CHECK(number < first_blocks_.size());
  Chunk chunk = LoadChunk(bytes_->data() + chunk_table_ + uint64_t{number} * kChunkEntryBytes);
  chunk.first_block = first_blocks_[number];
  return chunk;
}

uint32_t LayerIndex::FindChunk(uint32_t block) const {
  CHECK(block >= 1 && block <= header_.data_blocks);
  const auto after = std::upper_bound(first_blocks_.begin(), first_blocks_.end(), block);
  return static_cast<uint32_t>(after - first_blocks_.begin()) - 1;
}

std::string_view LayerIndex::stored_metadata() const { return std::string_view(*bytes_).substr(metadata_); }

Status LayerIndex::UnpackMetadata(const std::function<Status(std::string_view)>& consumer) const {
  ZstdStreamDecoder decoder;
  Sha256 hash;
  uint64_t unpacked = 0;
  std::string_view input = stored_metadata();
  for (;;) {
    ASSIGN_OR_RETURN(const std::string_view piece, decoder.Decode(&input).Annotate("layer index: metadata"));
    if (piece.empty()) break;
    unpacked += piece.size();
    if (unpacked > header_.metadata_bytes()) return DamagedIndex("more metadata than the header says");
    hash.Update(piece);
    RETURN_IF_ERROR(consumer(piece));
  }
  if (!decoder.is_between_frames() || unpacked != header_.metadata_bytes())
    return DamagedIndex("metadata is cut short");
  if (hash.Finish() != header_.metadata_digest) return DamagedIndex("metadata has another digest than the header says");
  return Status();
}

Result<std::string> LayerIndex::Metadata() const {
  std::string metadata;
  RETURN_IF_ERROR(UnpackMetadata([&](std::string_view piece) {
    metadata += piece;
    return Status();
  }));
  return metadata;
}

std::string EncodeLayerIndex(const LayerIndexParts& parts) {
  std::string out(kHeaderBytes, '\0');
  for (const BlobEntry& blob : parts.blobs) {
    out += blob.digest.View();
    AppendLe<uint64_t>(&out, blob.size_bytes);
    AppendLe<uint64_t>(&out, 0);
  }
  for (const Chunk& chunk : parts.chunks) {
    AppendLe(&out, static_cast<uint16_t>(chunk.blocks));
    AppendLe(&out, static_cast<uint16_t>(chunk.blob));
    AppendLe(&out, chunk.stored_bytes);
    AppendLe(&out, chunk.offset_bytes);
    out += chunk.digest.View();
  }
  const uint64_t metadata_at = out.size();
  const uint32_t table_crc = Crc32c(std::string_view(out).substr(kHeaderBytes));
  out += parts.stored_metadata;

  char* at = out.data();
  const LayerIndexHeader& header = parts.header;
  std::memcpy(at, kMagic.data(), kMagic.size());
  StoreLe(at + 8, kMajorVersion);
  StoreLe(at + 10, kMinorVersion);
  StoreLe(at + 12, kHeaderBytes);
  StoreLe(at + 20, kBlockBits);
  StoreLe(at + 24, header.max_chunk_blocks);
  StoreLe(at + 28, static_cast<uint32_t>(parts.blobs.size()));
  StoreLe(at + 32, static_cast<uint32_t>(parts.chunks.size()));
  StoreLe(at + 36, header.data_blocks);
  StoreLe(at + 40, header.meta_blocks);
  StoreLe(at + 44, table_crc);
  StoreLe(at + 48, uint64_t{kHeaderBytes});
  StoreLe(at + 56, kHeaderBytes + uint64_t{parts.blobs.size()} * kBlobEntryBytes);
  StoreLe(at + 64, metadata_at);
  StoreLe(at + 72, uint64_t{parts.stored_metadata.size()});
  StoreLe(at + 80, header.inodes);
  StoreLe(at + 88, header.file_bytes);
  std::memcpy(at + 96, header.metadata_digest.bytes.data(), kDigestBytes);
  std::memcpy(at + 128, header.diff_id.bytes.data(), kDigestBytes);
  StoreLe(at + kHeaderCrcAt, Crc32c(std::string_view(out).substr(0, kHeaderCrcAt)));
  return out;
}

Status ChunkDecoder::Decode(const Chunk& chunk, std::string_view stored, std::string* content) {
  if (stored.size() != chunk.stored_bytes) {
    return DataLossError(
        fmt::format("chunk {}: {} bytes instead of {}", chunk.digest.ToString(), stored.size(), chunk.stored_bytes));
  }
  if (chunk.is_compressed()) {
    content->resize(chunk.content_bytes());
    RETURN_IF_ERROR(zstd_.DecodeFrame(stored, *content).Annotate("chunk " + chunk.digest.ToString()));
  } else {
    content->assign(stored);
  }
  if (Sha256Of(*content) != chunk.digest) {
    return DataLossError("chunk " + chunk.digest.ToString() + ": its bytes have another digest");
  }
  return Status();
}

}  // namespace paceline::blocks
