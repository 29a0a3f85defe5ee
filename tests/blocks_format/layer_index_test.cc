#include "lib/blocks/format/layer_index.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "lib/blocks/format/little_endian.h"

namespace paceline::blocks {
namespace {

std::string Frame(const std::string& content) {
  std::string frame;
  ZstdEncoder encoder(3);
  encoder.AppendFrame(content, &frame);
  return frame;
}

// Three chunks of 16, 1 and 4 blocks in two blobs.
LayerIndexParts GoodParts() {
  LayerIndexParts parts;
  const std::string metadata(3 * kBlockBytes, 'm');
  parts.header.max_chunk_blocks = 16;
  parts.header.data_blocks = 21;
  parts.header.meta_blocks = 2;
  parts.header.inodes = 5;
  parts.header.file_bytes = 80000;
  parts.header.metadata_digest = Sha256Of(metadata);
  parts.header.diff_id = Sha256Of("tar");
  parts.blobs = {{Sha256Of("one"), 70000}, {Sha256Of("two"), 5000}};
  parts.chunks = {
      {1, 16, 0, 65536, 0, Sha256Of("a")}, {17, 1, 1, 4096, 100, Sha256Of("b")}, {18, 4, 0, 400, 65536, Sha256Of("c")}};
  // Two frames: a writer packs large metadata in pieces.
  parts.stored_metadata = Frame(metadata.substr(0, kBlockBytes)) + Frame(metadata.substr(kBlockBytes));
  return parts;
}

Result<LayerIndex> Parse(std::string bytes) {
  return LayerIndex::Parse(std::make_shared<const std::string>(std::move(bytes)));
}

// Puts the right checksums in, as somebody who means harm would.
void FixChecksums(std::string* bytes) {
  const uint64_t metadata = std::min<uint64_t>(LoadLe<uint64_t>(&(*bytes)[64]), bytes->size());
  if (metadata >= 256) StoreLe(&(*bytes)[44], Crc32c(std::string_view(*bytes).substr(256, metadata - 256)));
  StoreLe(&(*bytes)[252], Crc32c(std::string_view(*bytes).substr(0, 252)));
}

TEST(LayerIndex, ReadsWhatWasWritten) {
  const LayerIndexParts parts = GoodParts();
  const Result<LayerIndex> index = Parse(EncodeLayerIndex(parts));
  ASSERT_TRUE(index.ok()) << index.status().ToString();
  EXPECT_EQ(index->header().data_blocks, 21U);
  EXPECT_EQ(index->header().image_bytes(), 24U * kBlockBytes);
  EXPECT_EQ(index->header().diff_id, parts.header.diff_id);
  EXPECT_EQ(index->header().inodes, 5U);
  EXPECT_EQ(index->header().file_bytes, 80000U);
  EXPECT_EQ(index->blobs(), parts.blobs);
  ASSERT_EQ(index->chunk_count(), 3U);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(index->chunk(i), parts.chunks[i]);
  const struct { uint32_t block, chunk; } cases[] = {{1, 0}, {16, 0}, {17, 1}, {18, 2}, {21, 2}};
  for (const auto& c : cases) EXPECT_EQ(index->FindChunk(c.block), c.chunk) << c.block;
  EXPECT_EQ(*index->Metadata(), std::string(3 * kBlockBytes, 'm'));
}

TEST(LayerIndex, LayoutIsThatOfTheFormatPage) {
  const std::string bytes = EncodeLayerIndex(GoodParts());
  EXPECT_EQ(bytes.substr(0, 8), "PCLBIDX\n");
  EXPECT_EQ(LoadLe<uint16_t>(&bytes[8]), 1);
  EXPECT_EQ(LoadLe<uint32_t>(&bytes[12]), 256U);
  EXPECT_EQ(LoadLe<uint32_t>(&bytes[28]), 2U);
  EXPECT_EQ(LoadLe<uint64_t>(&bytes[56]), 256U + 2 * 48);
  EXPECT_EQ(LoadLe<uint64_t>(&bytes[64]), 256U + 2 * 48 + 3 * 48);
  const char* second = &bytes[256 + 2 * 48 + 48];
  EXPECT_EQ(LoadLe<uint16_t>(second), 1);
  EXPECT_EQ(LoadLe<uint16_t>(second + 2), 1);
  EXPECT_EQ(LoadLe<uint32_t>(second + 4), 4096U);
  EXPECT_EQ(LoadLe<uint64_t>(second + 8), 100U);
}

TEST(LayerIndex, RefusesPartsThatMakeNoSense) {
  const struct {
    const char* what;
    std::function<void(LayerIndexParts&)> change;
  } cases[] = {
      {"no metadata", [](LayerIndexParts& p) { p.header.meta_blocks = 0; }},
      {"too much metadata", [](LayerIndexParts& p) { p.header.meta_blocks = kMaxMetaBlocks + 1; }},
      {"chunks too large", [](LayerIndexParts& p) { p.header.max_chunk_blocks = kMaxChunkBlocks + 1; }},
      {"chunks of nothing", [](LayerIndexParts& p) { p.header.max_chunk_blocks = 0; }},
      {"a chunk larger than the largest", [](LayerIndexParts& p) { p.header.max_chunk_blocks = 15; }},
      {"an empty chunk", [](LayerIndexParts& p) { p.chunks[1].blocks = 0; }},
      {"a blob that is not there", [](LayerIndexParts& p) { p.chunks[1].blob = 2; }},
      {"more stored than content", [](LayerIndexParts& p) { p.chunks[1].stored_bytes = 4097; }},
      {"nothing stored", [](LayerIndexParts& p) { p.chunks[1].stored_bytes = 0; }},
      {"beyond the blob", [](LayerIndexParts& p) { p.chunks[1].offset_bytes = 5000 - 4095; }},
      {"far beyond it", [](LayerIndexParts& p) { p.chunks[1].offset_bytes = UINT64_MAX - 10; }},
      {"too few chunks", [](LayerIndexParts& p) { p.chunks.pop_back(); }},
      {"too many chunks", [](LayerIndexParts& p) { p.chunks.push_back(p.chunks[1]); }},
      {"a last chunk beyond the data", [](LayerIndexParts& p) { p.header.data_blocks = 20; }},
      {"more blocks than have numbers", [](LayerIndexParts& p) { p.header.data_blocks = UINT32_MAX - 1; }},
  };
  for (const auto& c : cases) {
    LayerIndexParts parts = GoodParts();
    c.change(parts);
    EXPECT_EQ(Parse(EncodeLayerIndex(parts)).status().code(), StatusCode::kDataLoss) << c.what;
  }
}

TEST(LayerIndex, RefusesMetadataThatIsNotWhatTheHeaderSays) {
  const std::string metadata(3 * kBlockBytes, 'm');
  const std::string cases[] = {"",
                               Frame(metadata.substr(1)),
                               Frame(metadata + "x"),
                               Frame(metadata.substr(1) + "x"),
                               Frame(metadata).substr(0, 8),
                               Frame(metadata) + "x",
                               Frame(std::string(100 << 20, '\0')),
                               "not zstd"};
  for (const std::string& stored : cases) {
    LayerIndexParts parts = GoodParts();
    parts.stored_metadata = stored;
    const Result<LayerIndex> index = Parse(EncodeLayerIndex(parts));
    ASSERT_TRUE(index.ok());
    EXPECT_EQ(index->Metadata().status().code(), StatusCode::kDataLoss) << stored.size();
  }
}

TEST(LayerIndex, OtherVersionsAreSaidToBeUnknown) {
  std::string bytes = EncodeLayerIndex(GoodParts());
  bytes[8] = 2;
  FixChecksums(&bytes);
  EXPECT_EQ(Parse(bytes).status().code(), StatusCode::kUnimplemented);
  bytes = EncodeLayerIndex(GoodParts());
  bytes[16] = 1;
  FixChecksums(&bytes);
  EXPECT_EQ(Parse(bytes).status().code(), StatusCode::kUnimplemented);
  bytes = EncodeLayerIndex(GoodParts());
  bytes[10] = 7;  // a later minor version is fine
  FixChecksums(&bytes);
  EXPECT_TRUE(Parse(bytes).ok());
}

TEST(LayerIndex, CutShortAnywhere) {
  const std::string whole = EncodeLayerIndex(GoodParts());
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(Parse(whole.substr(0, size)).ok()) << size;
  EXPECT_FALSE(Parse(whole + "x").ok());
}

TEST(LayerIndex, FlippedBitsAreNoticed) {
  const std::string whole = EncodeLayerIndex(GoodParts());
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] ^= static_cast<char>(1U << bit % 8);
    const Result<LayerIndex> index = Parse(damaged);
    if (!index.ok()) continue;
    // zstd's own headers have bits that say nothing.
    const Result<std::string> metadata = index->Metadata();
    EXPECT_TRUE(!metadata.ok() || *metadata == std::string(3 * kBlockBytes, 'm')) << bit;
  }
}

TEST(LayerIndex, DamageWithRightChecksumsEndsWell) {
  const std::string whole = EncodeLayerIndex(GoodParts());
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = whole;
    for (int flips = 1 + round % 4; flips > 0; --flips)
      damaged[random() % damaged.size()] ^= static_cast<char>(random());
    FixChecksums(&damaged);
    const Result<LayerIndex> index = Parse(damaged);
    if (!index.ok()) continue;
    for (uint32_t i = 0; i < index->chunk_count(); ++i) {
      const Chunk chunk = index->chunk(i);
      EXPECT_LE(chunk.offset_bytes + chunk.stored_bytes, index->blobs()[chunk.blob].size_bytes);
      EXPECT_EQ(index->FindChunk(chunk.first_block), i);
    }
    index->Metadata().status().IgnoreError();  // may be damaged or not
  }
}

TEST(ChunkDecoder, GivesOnlyWhatHasTheRightDigest) {
  const std::string content = std::string(kBlockBytes, 'a') + std::string(kBlockBytes, 'b');
  const std::string frame = Frame(content);
  const auto chunk_of = [&](const std::string& stored) {
    return Chunk{1, 2, 0, static_cast<uint32_t>(stored.size()), 0, Sha256Of(content)};
  };
  ChunkDecoder decoder;
  std::string out;
  for (const std::string& stored : {frame, content}) {
    ASSERT_TRUE(decoder.Decode(chunk_of(stored), stored, &out).ok());
    EXPECT_EQ(out, content);
  }
  std::string wrong = content;
  wrong[5000] = 'x';
  for (const std::string& stored : {wrong, Frame(wrong), Frame(content.substr(1)), Frame(content + "x"), frame + frame,
                                    frame.substr(1), frame.substr(0, frame.size() - 1), std::string("x")}) {
    EXPECT_EQ(decoder.Decode(chunk_of(stored), stored, &out).code(), StatusCode::kDataLoss) << stored.size();
  }
  EXPECT_EQ(decoder.Decode(chunk_of(frame), frame + "x", &out).code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace paceline::blocks
