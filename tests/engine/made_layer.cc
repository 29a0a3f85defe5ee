#include "tests/engine/made_layer.h"

#include <algorithm>
#include <numeric>

#include "lib/blocks/format/zstd_codec.h"

namespace paceline::blocks {
namespace {

std::string Noise(uint64_t seed, size_t size) {
  std::string bytes(size, '\0');
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (char& byte : bytes) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<char>(state);
  }
  return bytes;
}

std::string Content(uint64_t seed, uint32_t chunk, size_t size) {
  if (chunk % 3 == 2) return Noise(seed * 1000003 + chunk, size);
  std::string bytes;
  while (bytes.size() < size) bytes += "layer " + std::to_string(seed) + " chunk " + std::to_string(chunk) + "\n";
  bytes.resize(size);
  return bytes;
}

}  // namespace

MadeLayer::MadeLayer(const std::vector<uint32_t>& blocks_of, uint64_t seed) {
  ZstdEncoder encoder(1);
  LayerIndexParts parts;
  std::string data;
  for (uint32_t number = 0; number < blocks_of.size(); ++number) {
    const std::string content = Content(seed, number, size_t{blocks_of[number]} * kBlockBytes);
    std::string stored;
    encoder.AppendFrame(content, &stored);
    if (stored.size() >= content.size()) stored = content;
    Chunk chunk;
    chunk.blocks = blocks_of[number];
    chunk.stored_bytes = static_cast<uint32_t>(stored.size());
    chunk.offset_bytes = blob.size();
    chunk.digest = Sha256Of(content);
    parts.chunks.push_back(chunk);
    blob += stored;
    data += content;
  }
  blob_digest = Sha256Of(blob);
  if (!blob.empty()) parts.blobs.push_back({blob_digest, blob.size()});
  const uint32_t meta_blocks = 40;
  const std::string metadata = Noise(seed + 77, size_t{meta_blocks + 1} * kBlockBytes);
  encoder.AppendFrame(metadata, &parts.stored_metadata);
  parts.header.max_chunk_blocks = blocks_of.empty() ? 1 : *std::max_element(blocks_of.begin(), blocks_of.end());
  parts.header.data_blocks = std::accumulate(blocks_of.begin(), blocks_of.end(), 0U);
  parts.header.meta_blocks = meta_blocks;
  parts.header.metadata_digest = Sha256Of(metadata);
  parts.header.diff_id = Sha256Of(std::to_string(seed));
  index = std::make_shared<const std::string>(EncodeLayerIndex(parts));
  index_digest = Sha256Of(*index);
  image = metadata.substr(0, kBlockBytes) + data + metadata.substr(kBlockBytes);
}

void MadeStore::Add(const MadeLayer& layer) {
  MutexLock lock(mutex_);
  blobs_[layer.blob_digest] = layer.blob;
}

void MadeStore::SetFault(Fault fault) {
  MutexLock lock(mutex_);
  fault_ = std::move(fault);
}

std::vector<MadeStore::Read> MadeStore::reads() const {
  MutexLock lock(mutex_);
  return reads_;
}

uint64_t MadeStore::read_bytes() const {
  uint64_t sum = 0;
  for (const Read& read : reads()) sum += read.length_bytes;
  return sum;
}

Result<uint64_t> MadeStore::StatBlob(const Digest& digest, Deadline) {
  MutexLock lock(mutex_);
  const auto found = blobs_.find(digest);
  if (found == blobs_.end()) return NotFoundError("no such blob");
  return static_cast<uint64_t>(found->second.size());
}

Status MadeStore::ReadBlob(const Digest& digest, uint64_t offset_bytes, std::span<char> out, Deadline) {
  const Read read{digest, offset_bytes, out.size()};
  Fault fault;
  {
    MutexLock lock(mutex_);
    const auto found = blobs_.find(digest);
    if (found == blobs_.end()) return NotFoundError("no such blob");
    if (offset_bytes + out.size() > found->second.size()) return DataLossError("beyond the end");
    std::copy_n(found->second.begin() + static_cast<std::ptrdiff_t>(offset_bytes), out.size(), out.begin());
    reads_.push_back(read);
    fault = fault_;
  }
  return fault == nullptr ? Status() : fault(read, out);
}

}  // namespace paceline::blocks
