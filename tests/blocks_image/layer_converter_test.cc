#include "lib/blocks/image/layer_converter.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <set>

#include "lib/blocks/format/erofs_reader.h"
#include "lib/blocks/format/zstd_codec.h"
#include "lib/blocks/image/image_check.h"
#include "tests/blocks_image/converted.h"
#include "tests/blocks_image/tar_writer.h"
#include "tests/net/gzip_encode.h"

namespace paceline::blocks {
namespace {

std::string Noise(size_t bytes, uint32_t seed) {
  std::string noise(bytes, '\0');
  uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
  for (size_t at = 0; at < bytes; at += sizeof state) {
    // xorshift64: quick, and nothing that a compressor could find.
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    std::memcpy(&noise[at], &state, std::min(sizeof state, bytes - at));
  }
  return noise;
}

std::string Zstd(const std::string& bytes) {
  std::string packed;
  ZstdEncoder encoder(3);
  encoder.AppendFrame(bytes.substr(0, bytes.size() / 2), &packed);
  encoder.AppendFrame(bytes.substr(bytes.size() / 2), &packed);
  return packed;
}

size_t FilesBelow(const std::string& folder) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) count += entry.is_regular_file();
  return count;
}

LayerIndex IndexOf(LayerBench& bench, const ConvertedLayer& converted) {
  Result<LayerIndex> index = ReadLayerIndex(bench.store(), converted.layer, Deadline::Infinite());
  EXPECT_TRUE(index.ok()) << index.status().ToString();
  return std::move(*index);
}

std::set<Digest> ChunksOf(LayerBench& bench, const ConvertedLayer& converted) {
  const LayerIndex index = IndexOf(bench, converted);
  std::set<Digest> digests;
  for (uint32_t i = 0; i < index.chunk_count(); ++i) digests.insert(index.chunk(i).digest);
  return digests;
}

// 40 packages of 20 files each, and a large file in every eighth of them.
std::string Packages(int changed_package, size_t changed_bytes) {
  TarWriter tar;
  tar.Directory("lib/");
  for (int package = 0; package < 40; ++package) {
    const std::string folder = "lib/package" + std::to_string(100 + package) + "/";
    tar.Directory(folder);
    const bool is_changed = package == changed_package;
    for (uint32_t file = 0; file < 20; ++file) {
      const size_t bytes = 200 + (file * 7919 + static_cast<uint32_t>(package) * 104729) % 20000;
      tar.File(folder + "file" + std::to_string(file),
               Noise(bytes + (is_changed ? changed_bytes : 0),
                     static_cast<uint32_t>(package) * 100 + file + (is_changed ? 9999 : 0)));
    }
    if (package % 8 == 0) tar.File(folder + "library.so", Noise(500000, static_cast<uint32_t>(package) + 77777));
  }
  return tar.Finish();
}

TEST(LayerConverter, SameBytesWhateverTheThreadsAndTheCompression) {
  const std::string tar = Packages(-1, 0);
  const std::string forms[] = {tar, net::GzipEncode(tar),
                               net::GzipEncode(tar.substr(0, 100000)) + net::GzipEncode(tar.substr(100000)), Zstd(tar)};
  std::set<std::string> indexes;
  for (const int threads : {1, 3}) {
    for (const std::string& blob : forms) {
      LayerBench bench;
      Result<ConvertedLayer> converted = bench.Convert(tar, blob, nullptr, threads);
      ASSERT_TRUE(converted.ok()) << converted.status().ToString();
      EXPECT_EQ(*converted->layer.source, Sha256Of(blob));
      EXPECT_EQ(converted->layer.diff_id, Sha256Of(tar));
      indexes.insert(converted->layer.index.digest.ToString() + converted->layer.data.at(0).digest.ToString());
    }
  }
  EXPECT_EQ(indexes.size(), 1U);
}

TEST(LayerConverter, AChangeShipsItsNeighbourhoodOnly) {
  LayerBench bench;
  const std::set<Digest> before = ChunksOf(bench, *bench.Convert(Packages(-1, 0)));
  const std::set<Digest> after = ChunksOf(bench, *bench.Convert(Packages(17, 3000)));
  size_t fresh = 0;
  for (const Digest& digest : after) fresh += before.contains(digest) ? 0 : 1;
  // The package itself is about 260 KiB: 5 chunks. Some more end or begin in it.
  EXPECT_GE(fresh, 4U);
  EXPECT_LE(fresh, 12U) << "of " << after.size();
}

TEST(LayerConverter, EqualContentIsStoredOnce) {
  LayerBench bench;
  const std::string content = Noise(200000, 1);
  const Result<ConvertedLayer> once = bench.Convert(TarWriter().File("a", content).Finish());
  const Result<ConvertedLayer> twice = bench.Convert(TarWriter().File("a", content).File("b", content).Finish());
  ASSERT_TRUE(once.ok() && twice.ok());
  EXPECT_EQ(twice->layer.data[0].digest, once->layer.data[0].digest);
  EXPECT_EQ(twice->chunks, 2 * once->chunks);
}

TEST(LayerConverter, EmptyLayers) {
  for (const std::string& tar : {std::string(), std::string(1024, '\0'), TarWriter().Directory("d/").Finish()}) {
    LayerBench bench;
    const Result<ConvertedLayer> converted = bench.Convert(tar, tar.empty() ? net::GzipEncode("") : "");
    ASSERT_TRUE(converted.ok()) << converted.status().ToString();
    EXPECT_TRUE(converted->layer.data.empty());
    EXPECT_EQ(converted->chunks, 0U);
    EXPECT_TRUE(bench.Image(converted->layer).ok());
  }
}

TEST(LayerConverter, ChunkSizes) {
  const std::string tar = Packages(-1, 0);
  for (const uint32_t blocks : {1U, 4U, 64U, 1024U}) {
    LayerBench bench;
    bench.options.max_chunk_blocks = blocks;
    const Result<ConvertedLayer> converted = bench.Convert(tar);
    ASSERT_TRUE(converted.ok()) << converted.status().ToString();
    EXPECT_TRUE(bench.Image(converted->layer).ok());
    EXPECT_EQ(IndexOf(bench, *converted).header().max_chunk_blocks, blocks);
  }
}

TEST(LayerConverter, AHugeSparseFileCostsNothing) {
  LayerBench bench;
  const uint64_t size = uint64_t{300} << 30;
  const std::string tar = TarWriter()
                              .Add({.name = "lastlog",
                                    .content = "end",
                                    .pax = {{"GNU.sparse.size", std::to_string(size)},
                                            {"GNU.sparse.map", std::to_string(size - 3) + ",3"}}})
                              .Finish();
  const Result<ConvertedLayer> converted = bench.Convert(tar);
  ASSERT_TRUE(converted.ok()) << converted.status().ToString();
  EXPECT_EQ(converted->file_bytes, size);
  const LayerIndex index = IndexOf(bench, *converted);
  EXPECT_LE(index.header().image_bytes(), uint64_t{32} << 20);
  const Result<ErofsReader> reader = ErofsReader::Open(*index.Metadata(), index.header());
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  const ErofsInode root = *reader->Inode(reader->root());
  const ErofsInode file = *reader->Inode(**reader->Find(root, "lastlog"));
  const std::vector<ErofsExtent> extents = *reader->Extents(file);
  ASSERT_EQ(extents.size(), 1U);
  EXPECT_EQ(extents[0].file_offset_bytes + uint64_t{extents[0].blocks} * kBlockBytes, size);
}

TEST(LayerConverter, RefusesBytesThatAreNotWhatTheManifestSays) {
  const std::string tar = TarWriter().File("f", Noise(300000, 5)).Finish();
  LayerBench bench;
  const RealClock clock;
  ConvertProgress progress;
  const Digest right = Sha256Of(tar), wrong = Sha256Of("x");
  const struct {
    Digest digest, diff_id;
    uint64_t size;
  } cases[] = {{wrong, right, tar.size()}, {right, wrong, tar.size()}, {right, right, tar.size() - 1}};
  for (const auto& c : cases) {
    const Result<ConvertedLayer> converted = ConvertLayer({NewStringSource(tar), c.digest, c.size, c.diff_id}, nullptr,
                                                          bench.store(), bench.options, clock, &progress, {});
    EXPECT_EQ(converted.status().code(), StatusCode::kDataLoss);
  }
  EXPECT_EQ(FilesBelow(bench.folder() / "store/blobs") + FilesBelow(bench.folder() / "store/tmp"), 0U);
}

TEST(LayerConverter, RefusesDamagedCompression) {
  LayerBench bench;
  const std::string tar = TarWriter().File("f", std::string(300000, 'x')).Finish();
  for (const std::string& blob : {net::GzipEncode(tar), Zstd(tar)}) {
    for (const size_t cut : {size_t{1}, size_t{9}, blob.size() / 2}) {
      EXPECT_EQ(bench.Convert(tar, blob.substr(0, blob.size() - cut)).status().code(), StatusCode::kDataLoss) << cut;
    }
    std::mt19937 random(2);
    for (int round = 0; round < 60; ++round) {
      std::string damaged = blob;
      damaged[10 + random() % (damaged.size() - 10)] ^= static_cast<char>(1U << random() % 8);
      const Result<ConvertedLayer> converted = bench.Convert(tar, damaged);
      // A flip in a part that says nothing (gzip's time) leaves the content as it is.
      EXPECT_TRUE(converted.ok() || converted.status().code() == StatusCode::kDataLoss)
          << converted.status().ToString();
    }
  }
}

TEST(LayerConverter, StopsWhenAsked) {
  LayerBench bench;
  const RealClock clock;
  ConvertProgress progress;
  std::stop_source stop;
  stop.request_stop();
  const std::string tar = TarWriter().File("f", "x").Finish();
  const Result<ConvertedLayer> converted =
      ConvertLayer({NewStringSource(tar), Sha256Of(tar), tar.size(), Sha256Of(tar)}, nullptr, bench.store(),
                   bench.options, clock, &progress, stop.get_token());
  EXPECT_EQ(converted.status().code(), StatusCode::kCancelled);
}

TEST(LayerConverter, NamesTheLayerAndTheFileOfAFailure) {
  LayerBench bench;
  const Result<ConvertedLayer> converted = bench.Convert(TarWriter().HardLink("usr/bin/a", "usr/bin/b").Finish());
  EXPECT_EQ(converted.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(converted.status().message().find("sha256:"), std::string::npos);
  EXPECT_NE(converted.status().message().find("usr/bin/a"), std::string::npos);
}

TEST(LayerCheck, FindsEveryKindOfDamage) {
  LayerBench bench;
  const RealClock clock;
  const ConvertedLayer converted = *bench.Convert(Packages(-1, 0));
  const auto check = [&] { return CheckLayer(bench.store(), converted.layer, {}, clock, {}).status(); };
  ASSERT_TRUE(check().ok()) << check().ToString();
  for (const Digest& blob : {converted.layer.index.digest, converted.layer.data[0].digest}) {
    const std::string path = bench.folder() / "store/blobs/sha256/" + blob.Hex();
    const auto size = std::filesystem::file_size(path);
    for (const uint64_t at : {uint64_t{0}, uint64_t{100}, size / 2, size - 1}) {
      std::FILE* file = std::fopen(path.c_str(), "r+");
      std::fseek(file, static_cast<long>(at), SEEK_SET);
      const int byte = std::fgetc(file);
      for (const int put : {byte ^ 1, byte}) {
        std::fseek(file, static_cast<long>(at), SEEK_SET);
        std::fputc(put, file);
        std::fflush(file);
        EXPECT_EQ(check().ok(), put == byte) << at;
      }
      std::fclose(file);
    }
  }
  std::filesystem::remove(bench.folder() / "store/blobs/sha256/" + converted.layer.data[0].digest.Hex());
  EXPECT_EQ(check().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace paceline::blocks
