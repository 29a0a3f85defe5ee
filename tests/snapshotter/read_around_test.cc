#include "snapshotter/read_around.h"

#include <gtest/gtest.h>

#include "lib/blocks/engine/chunk_cache.h"
#include "tests/engine/made_layer.h"
#include "tests/fakes/simulated_clock.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::snapshotter {
namespace {

using blocks::kBlockBytes;

constexpr uint64_t kChunkBlocks = 4;

class ReadAroundTest : public testing::Test {
 protected:
  ReadAroundTest() {
    store_->Add(made_);
    cache_ = *blocks::ChunkCache::Open({.folder = folder_ / "cache"}, clock_);
    engine_ = std::make_unique<blocks::ChunkEngine>(blocks::EngineOptions(), *cache_, nullptr, clock_);
    Result<std::unique_ptr<blocks::ImageReader>> image = engine_->Open({made_.source()}, store_);
    EXPECT_TRUE(image.ok());
    image_ = *std::move(image);
  }

  // Chunks on disk after a read of a few bytes of `chunk` is noted, and all that follows from it is done.
  uint64_t ChunksAfter(ReadAround& around, uint32_t chunk) {
    around.Note(0, (1 + kChunkBlocks * chunk) * kBlockBytes + 10, 20);
    EXPECT_TRUE(engine_->AwaitIdle(Deadline::Infinite()));
    return image_->KeptBytes(0) / (kChunkBlocks * kBlockBytes);
  }

  fakes::TemporaryFolder folder_;
  fakes::SimulatedClock clock_;
  const blocks::MadeLayer made_{std::vector<uint32_t>(40, kChunkBlocks), 1};
  std::shared_ptr<blocks::MadeStore> store_ = std::make_shared<blocks::MadeStore>();
  std::unique_ptr<blocks::ChunkCache> cache_;
  std::unique_ptr<blocks::ChunkEngine> engine_;
  std::unique_ptr<blocks::ImageReader> image_;
};

TEST_F(ReadAroundTest, FetchesWhatLiesBehindOnceAndCountsItNotAsRead) {
  ReadAround around(*image_, 3 * kChunkBlocks * kBlockBytes);
  EXPECT_EQ(ChunksAfter(around, 5), 0u);  // not begun
  around.Begin();
  EXPECT_EQ(ChunksAfter(around, 5), 3u);  // 6, 7, 8
  EXPECT_EQ(ChunksAfter(around, 5), 3u);
  EXPECT_EQ(ChunksAfter(around, 7), 5u);   // 9, 10 as well
  EXPECT_EQ(ChunksAfter(around, 38), 6u);  // 39 is the last
  EXPECT_EQ(ChunksAfter(around, 39), 6u);
  EXPECT_TRUE(image_->accesses().accesses().empty());
  EXPECT_EQ(image_->stats().prefetched_bytes, image_->stats().origin_bytes);
  around.End();
  EXPECT_EQ(ChunksAfter(around, 20), 6u);
}

TEST_F(ReadAroundTest, LeavesMetadataAndEmptyReadsAlone) {
  ReadAround around(*image_, 3 * kChunkBlocks * kBlockBytes);
  around.Begin();
  around.Note(0, 0, 4096);
  around.Note(0, 100, 0);
  around.Note(0, image_->index(0).header().image_bytes() - 4096, 4096);
  EXPECT_TRUE(engine_->AwaitIdle(Deadline::Infinite()));
  EXPECT_EQ(image_->KeptBytes(0), 0u);
  ReadAround none(*image_, 0);
  none.Begin();
  EXPECT_EQ(ChunksAfter(none, 5), 0u);
}

}  // namespace
}  // namespace paceline::snapshotter
