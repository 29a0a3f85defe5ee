// The cache on a real disk: crashes, damage, quota, a full file system.
#include "lib/blocks/engine/chunk_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <fstream>
#include <numeric>

#include "tests/engine/made_layer.h"
#include "tests/fakes/simulated_clock.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::blocks {
namespace {

using std::chrono::seconds;

class ChunkCacheTest : public testing::Test {
 protected:
  std::unique_ptr<ChunkCache> Open(uint64_t quota_bytes = 1 << 30) {
    Result<std::unique_ptr<ChunkCache>> cache =
        ChunkCache::Open({.folder = folder_ / "cache", .quota_bytes = quota_bytes}, clock_);
    EXPECT_TRUE(cache.ok()) << cache.status().ToString();
    return *std::move(cache);
  }

  std::string Content(const MadeLayer& layer, const LayerIndex& index, uint32_t number) const {
    const Chunk chunk = index.chunk(number);
    return layer.image.substr(size_t{chunk.first_block} * kBlockBytes, chunk.content_bytes());
  }

  void StoreAll(ChunkCache& cache, LayerCache& layer, const MadeLayer& made) {
    for (uint32_t i = 0; i < layer.index().chunk_count(); ++i) cache.Store(layer, i, Content(made, layer.index(), i));
  }

  uint32_t CountGood(ChunkCache& cache, LayerCache& layer, const MadeLayer& made) {
    uint32_t good = 0;
    for (uint32_t i = 0; i < layer.index().chunk_count(); ++i) {
      const Result<std::string> content = cache.Load(layer, i);
      if (!content.ok()) continue;
      EXPECT_TRUE(*content == Content(made, layer.index(), i)) << i;
      ++good;
    }
    return good;
  }

  std::string ImagePath(const MadeLayer& made) const {
    return folder_ / ("cache/layers/" + made.index_digest.Hex() + "/image");
  }

  void FlipBit(const std::string& path, uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
    ASSERT_TRUE(file.good());
  }

  fakes::TemporaryFolder folder_;
  fakes::SimulatedClock clock_;
  const MadeLayer made_{std::vector<uint32_t>(20, 4), 1};
};

TEST_F(ChunkCacheTest, WhatIsKeptIsThereAfterARestart) {
  {
    const auto cache = Open();
    const auto layer = *cache->OpenLayer(made_.index_digest, made_.index);
    EXPECT_EQ(cache->Load(*layer, 3).status().code(), StatusCode::kNotFound);
    StoreAll(*cache, *layer, made_);
    EXPECT_EQ(CountGood(*cache, *layer, made_), 20u);
  }
  const auto cache = Open();
  EXPECT_EQ(cache->stats().used_bytes, 20u * 4 * kBlockBytes);
  // Without the store: the index is here, too.
  const Result<std::string> index = cache->KeptIndex(made_.index_digest);
  ASSERT_TRUE(index.ok());
  EXPECT_TRUE(*index == *made_.index);
  const auto layer = *cache->OpenLayer(made_.index_digest, made_.index);
  EXPECT_EQ(CountGood(*cache, *layer, made_), 20u);
  EXPECT_EQ(cache->stats().damaged_chunks, 0u);
}

TEST_F(ChunkCacheTest, TheFileIsThePlainImageOnceItIsComplete) {
  const auto cache = Open();
  const auto layer = *cache->OpenLayer(made_.index_digest, made_.index);
  StoreAll(*cache, *layer, made_);
  std::ifstream file(ImagePath(made_), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_TRUE(bytes == made_.image);
}

TEST_F(ChunkCacheTest, OneProcessPerFolder) {
  const auto cache = Open();
  const auto second = ChunkCache::Open({.folder = folder_ / "cache"}, clock_);
  EXPECT_EQ(second.status().code(), StatusCode::kAborted);
}

TEST_F(ChunkCacheTest, AFlippedBitIsFoundAndTheChunkCanComeBack) {
  const auto cache = Open();
  const auto layer = *cache->OpenLayer(made_.index_digest, made_.index);
  StoreAll(*cache, *layer, made_);
  FlipBit(ImagePath(made_), (1 + 4 * 7) * kBlockBytes + 123);
  EXPECT_EQ(cache->Load(*layer, 7).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(cache->Load(*layer, 7).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(cache->stats().damaged_chunks, 1u);
  cache->Store(*layer, 7, Content(made_, layer->index(), 7));
  EXPECT_EQ(CountGood(*cache, *layer, made_), 20u);
  EXPECT_EQ(cache->stats().used_bytes, 20u * 4 * kBlockBytes);
}

TEST_F(ChunkCacheTest, ChangedMetadataIsMendedFromTheIndex) {
  const auto cache = Open();
  const auto layer = *cache->OpenLayer(made_.index_digest, made_.index);
  const uint64_t meta_at = uint64_t{layer->index().header().first_meta_block()} * kBlockBytes;
  for (const uint64_t at : {uint64_t{100}, meta_at + 5, uint64_t{made_.image.size()} - 1}) {
    FlipBit(ImagePath(made_), at);
    std::string head(kBlockBytes, '\0'), rest(made_.image.size() - meta_at, '\0');
    ASSERT_TRUE(layer->ReadMetadata(0, head).ok());
    ASSERT_TRUE(layer->ReadMetadata(meta_at, rest).ok());
    EXPECT_TRUE(head == made_.image.substr(0, kBlockBytes)) << at;
    EXPECT_TRUE(rest == made_.image.substr(meta_at)) << at;
  }
  EXPECT_EQ(cache->stats().mended_metadata, 3u);
}

TEST_F(ChunkCacheTest, DamageWhileNobodyRanIsFoundAtTheStart) {
  {
    const auto cache = Open();
    const auto layer = *cache->OpenLayer(made_.index_digest, made_.index);
    StoreAll(*cache, *layer, made_);
  }
  FlipBit(ImagePath(made_), 2000);             // metadata
  FlipBit(ImagePath(made_), 5 * kBlockBytes);  // chunk 1
  const std::string folder = folder_ / ("cache/layers/" + made_.index_digest.Hex());
  {
    const auto cache = Open();
    const auto layer = *cache->OpenLayer(made_.index_digest, made_.index);
    std::string head(kBlockBytes, '\0');
    ASSERT_TRUE(layer->ReadMetadata(0, head).ok());
    EXPECT_TRUE(head == made_.image.substr(0, kBlockBytes));
    EXPECT_EQ(CountGood(*cache, *layer, made_), 19u);
  }
  FlipBit(folder + "/map", 20);  // not this layer's map any more
  {
    const auto cache = Open();
    const auto layer = *cache->OpenLayer(made_.index_digest, made_.index);
    EXPECT_EQ(CountGood(*cache, *layer, made_), 0u);
    StoreAll(*cache, *layer, made_);
    EXPECT_EQ(CountGood(*cache, *layer, made_), 20u);
  }
  FlipBit(folder + "/index", 20);
  {
    const auto cache = Open();
    EXPECT_EQ(cache->KeptIndex(made_.index_digest).status().code(), StatusCode::kNotFound);
    const auto layer = *cache->OpenLayer(made_.index_digest, made_.index);
    StoreAll(*cache, *layer, made_);
    EXPECT_EQ(CountGood(*cache, *layer, made_), 20u);
  }
}

TEST_F(ChunkCacheTest, TheQuotaHoldsAndTheLongestUnusedGoes) {
  const uint64_t chunk_bytes = 4 * kBlockBytes;
  const auto cache = Open(10 * chunk_bytes);
  const auto layer = *cache->OpenLayer(made_.index_digest, made_.index);
  for (uint32_t i = 0; i < 20; ++i) {
    cache->Store(*layer, i, Content(made_, layer->index(), i));
    EXPECT_LE(cache->stats().used_bytes, 10 * chunk_bytes);
    clock_.Advance(seconds(1));
    if (i >= 1) {
      EXPECT_TRUE(cache->Load(*layer, 1).ok()) << i;  // in use all the time
    }
  }
  EXPECT_EQ(cache->Load(*layer, 0).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(cache->Load(*layer, 19).ok());
  EXPECT_GE(CountGood(*cache, *layer, made_), 9u);
  EXPECT_GT(cache->stats().evicted_chunks, 9u);
  struct stat st = {};
  ASSERT_EQ(stat(ImagePath(made_).c_str(), &st), 0);
  // The space is given back, not only forgotten: what is left is the quota and the metadata.
  EXPECT_LE(static_cast<uint64_t>(st.st_blocks) * 512, 10 * chunk_bytes + 41 * kBlockBytes + 64 * 1024);
}

TEST_F(ChunkCacheTest, ALayerThatNobodyUsesGoesFirst) {
  const MadeLayer other(std::vector<uint32_t>(10, 4), 2);
  const uint64_t chunk_bytes = 4 * kBlockBytes;
  const auto cache = Open(20 * chunk_bytes);
  const auto layer = *cache->OpenLayer(made_.index_digest, made_.index);
  for (uint32_t i = 0; i < 10; ++i) cache->Store(*layer, i, Content(made_, layer->index(), i));
  clock_.Advance(seconds(100));
  {
    const auto unused = *cache->OpenLayer(other.index_digest, other.index);
    StoreAll(*cache, *unused, other);
  }
  clock_.Advance(seconds(100));
  for (uint32_t i = 10; i < 18; ++i) cache->Store(*layer, i, Content(made_, layer->index(), i));
  EXPECT_EQ(CountGood(*cache, *layer, made_), 18u);
}

TEST_F(ChunkCacheTest, AQuotaSmallerThanAChunkKeepsNothing) {
  const auto cache = Open(100);
  const auto layer = *cache->OpenLayer(made_.index_digest, made_.index);
  StoreAll(*cache, *layer, made_);
  EXPECT_EQ(cache->stats().used_bytes, 0u);
  EXPECT_EQ(CountGood(*cache, *layer, made_), 0u);
}

// A writer that is killed at any moment: whatever the map says is there is good.
TEST_F(ChunkCacheTest, AKillLosesNothingAndNothingUncheckedIsGiven) {
  const MadeLayer large(std::vector<uint32_t>(300, 16), 3);
  uint32_t most = 0;
  for (int round = 0; round < 12; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto cache = ChunkCache::Open({.folder = folder_ / "cache"}, clock_);
      const auto layer = *(*cache)->OpenLayer(large.index_digest, large.index);
      while (true) {
        StoreAll(**cache, *layer, large);
        for (uint32_t i = 0; i < 300; i += 1 + static_cast<uint32_t>(round % 3)) layer->Drop(i);
      }
    }
    const RealClock real;
    real.SleepFor(std::chrono::milliseconds(3 + 7 * round), {});
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const auto cache = Open();
    const auto layer = *cache->OpenLayer(large.index_digest, large.index);
    uint32_t present = 0;
    for (uint32_t i = 0; i < 300; ++i) present += layer->IsPresent(i) ? 1 : 0;
    EXPECT_EQ(CountGood(*cache, *layer, large), present - cache->stats().damaged_chunks);
    // Only the chunk in work can be wrong: a kill is no power cut.
    EXPECT_LE(cache->stats().damaged_chunks, 1u);
    most = std::max(most, present);
  }
  EXPECT_GT(most, 10u);
}

class SmallDisk {
 public:
  SmallDisk(const std::string& folder, const char* options) : folder_(folder) {
    mkdir(folder.c_str(), 0700);
    is_mounted_ = mount("small", folder.c_str(), "tmpfs", 0, options) == 0;
  }
  ~SmallDisk() {
    if (is_mounted_) umount2(folder_.c_str(), MNT_DETACH);
  }
  bool is_mounted() const { return is_mounted_; }

 private:
  const std::string folder_;
  bool is_mounted_ = false;
};

TEST_F(ChunkCacheTest, AFullDiskIsReadThrough) {
  const SmallDisk disk(folder_ / "cache", "size=900k");
  if (!disk.is_mounted()) GTEST_SKIP() << "needs root, to mount a small tmpfs";
  const auto cache = Open();
  const auto layer = *cache->OpenLayer(made_.index_digest, made_.index);
  // Somebody else fills the disk: room for a few chunks is left.
  std::ofstream(folder_ / "cache/somebody") << std::string(500000, 'x');
  StoreAll(*cache, *layer, made_);
  const uint32_t kept = CountGood(*cache, *layer, made_);
  EXPECT_GT(kept, 0u);
  EXPECT_LT(kept, 20u);
  EXPECT_GT(cache->stats().full_disk, 0u);
  EXPECT_EQ(cache->stats().used_bytes, kept * 4u * kBlockBytes);
  // With room again, and after the pause, the rest is kept.
  unlink((folder_ / "cache/somebody").c_str());
  StoreAll(*cache, *layer, made_);
  EXPECT_EQ(CountGood(*cache, *layer, made_), kept);
  clock_.Advance(seconds(11));
  StoreAll(*cache, *layer, made_);
  EXPECT_EQ(CountGood(*cache, *layer, made_), 20u);
}

TEST_F(ChunkCacheTest, ADiskWithoutRoomForTheMetadataStillServes) {
  const SmallDisk disk(folder_ / "cache", "size=64k");
  if (!disk.is_mounted()) GTEST_SKIP() << "needs root, to mount a small tmpfs";
  const auto cache = Open();
  const auto opened = cache->OpenLayer(made_.index_digest, made_.index);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  std::string head(kBlockBytes, '\0');
  ASSERT_TRUE((*opened)->ReadMetadata(0, head).ok());
  EXPECT_TRUE(head == made_.image.substr(0, kBlockBytes));
  StoreAll(*cache, **opened, made_);
  CountGood(*cache, **opened, made_);
}

}  // namespace
}  // namespace paceline::blocks
