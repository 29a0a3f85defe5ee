#include "snapshotter/mount_hot_set.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "lib/base/filesystem.h"
#include "lib/blocks/engine/chunk_cache.h"
#include "lib/blocks/format/folder_store.h"
#include "lib/blocks/format/manifest.h"
#include "snapshotter/read_around.h"
#include "tests/engine/made_layer.h"
#include "tests/fakes/simulated_clock.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::snapshotter {
namespace {

constexpr uint32_t kChunks = 40;

// One mount of a made-up layer, with a cache of its own as on another node.
class Mounted {
 public:
  Mounted(const blocks::MadeLayer& made, std::string folder, const Clock& clock) {
    store_->Add(made);
    cache_ = *blocks::ChunkCache::Open({.folder = std::move(folder)}, clock);
    engine_ = std::make_unique<blocks::ChunkEngine>(blocks::EngineOptions(), *cache_, nullptr, clock);
    image_ = *engine_->Open({made.source()}, store_);
    around_ = std::make_unique<ReadAround>(*image_, 0);
  }

  void Read(uint32_t chunk) {
    char byte;
    EXPECT_TRUE(image_->Read(0, (1 + uint64_t{chunk}) * blocks::kBlockBytes, {&byte, 1}).ok());
  }
  uint64_t KeptChunks() {
    EXPECT_TRUE(engine_->AwaitIdle(Deadline::Infinite()));
    return image_->KeptBytes(0) / blocks::kBlockBytes;
  }
  blocks::ImageReader& image() { return *image_; }
  ReadAround& around() { return *around_; }

 private:
  std::shared_ptr<blocks::MadeStore> store_ = std::make_shared<blocks::MadeStore>();
  std::unique_ptr<blocks::ChunkCache> cache_;
  std::unique_ptr<blocks::ChunkEngine> engine_;
  std::unique_ptr<blocks::ImageReader> image_;
  std::unique_ptr<ReadAround> around_;
};

class MountHotSetTest : public testing::Test {
 protected:
  MountHotSetTest() {
    std::unique_ptr<blocks::BlobStore> store = *blocks::OpenFolderStore(folder_ / "store", blocks::StoreAccess::kWrite);
    store_ = std::move(store);
    const auto stored = store_->PutManifest("image", blocks::kManifestMediaType, "{}", Deadline::Infinite());
    EXPECT_TRUE(stored.ok());
    image_ = stored->digest;
    options_.use = HotSetUse::kRecord;
    options_.folder = folder_ / "hot-sets";
  }

  Mounted Mount() { return Mounted(made_, folder_ / ("cache" + std::to_string(++mounts_)), clock_); }

  std::unique_ptr<MountHotSet> HotSetOf(Mounted& mounted) {
    return std::make_unique<MountHotSet>(
        options_, HotSetImage{image_, {made_.index_digest}, mounted.image(), mounted.around()},
        [this](blocks::StoreAccess access) -> Result<std::shared_ptr<blocks::BlobStore>> {
          if (!is_there_) return UnavailableError("the store is away");
          if (access == blocks::StoreAccess::kWrite && !takes_writes_) return PermissionDeniedError("read only");
          return store_;
        },
        clock_, *log_);
  }

  // Chunks of the set in the store, in order; empty for none.
  std::vector<uint32_t> Stored() {
    const Result<HotSet> set = LoadHotSet(*store_, image_, Deadline::Infinite());
    std::vector<uint32_t> chunks;
    if (!set.ok()) return chunks;
    for (const blocks::Access& access : set->accesses) chunks.push_back(access.chunk);
    return chunks;
  }

  // One mount whose program reads these, taken down afterwards.
  void Use(const std::vector<uint32_t>& chunks) {
    Mounted mounted = Mount();
    const auto hot_set = HotSetOf(mounted);
    clock_.AwaitTimers(1);  // it has looked for the set
    for (const uint32_t chunk : chunks) mounted.Read(chunk);
    hot_set->Finish();
  }

  fakes::TemporaryFolder folder_;
  fakes::SimulatedClock clock_;
  const std::unique_ptr<Logger> log_ = Logger::Discard();
  const blocks::MadeLayer made_{std::vector<uint32_t>(kChunks, 1), 1};
  std::shared_ptr<blocks::BlobStore> store_;
  blocks::Digest image_;
  MountHotSetOptions options_;
  std::atomic<bool> is_there_{true}, takes_writes_{true};
  int mounts_ = 0;
};

using Chunks = std::vector<uint32_t>;

TEST_F(MountHotSetTest, TheNextMountFetchesWhatTheFirstOneRead) {
  Use({7, 30, 8});
  EXPECT_EQ(Stored(), (Chunks{7, 30, 8}));
  Mounted next = Mount();
  const auto hot_set = HotSetOf(next);
  clock_.AwaitTimers(1);
  EXPECT_EQ(hot_set->facts().phase, HotSetPhase::kFetched);
  EXPECT_EQ(hot_set->facts().chunks, 3u);
  EXPECT_EQ(next.KeptChunks(), 3u);
  EXPECT_TRUE(next.image().accesses().accesses().empty());
}

TEST_F(MountHotSetTest, TheWindowBeginsWithTheFirstRead) {
  Mounted mounted = Mount();
  const auto hot_set = HotSetOf(mounted);
  clock_.AwaitTimers(1);
  EXPECT_EQ(hot_set->facts().phase, HotSetPhase::kRecording);
  for (int second = 0; second < 600; ++second) {  // an image that takes long to be pulled
    clock_.Advance(std::chrono::seconds(1));
    clock_.AwaitTimers(1);
  }
  mounted.Read(5);
  clock_.Advance(std::chrono::seconds(1));  // it notices
  clock_.AwaitTimers(1);
  EXPECT_TRUE(Stored().empty());
  mounted.Read(6);
  clock_.Advance(options_.window);
  hot_set->Finish();
  EXPECT_EQ(Stored(), (Chunks{5, 6}));
  EXPECT_EQ(hot_set->facts().phase, HotSetPhase::kRecorded);
}

TEST_F(MountHotSetTest, WhatIsReadAfterTheWindowDoesNotCount) {
  Mounted mounted = Mount();
  const auto hot_set = HotSetOf(mounted);
  clock_.AwaitTimers(1);
  mounted.Read(5);
  clock_.Advance(std::chrono::seconds(1));
  clock_.AwaitTimers(1);
  clock_.Advance(options_.window);
  while (Stored().empty()) std::this_thread::yield();  // the thread saves it
  mounted.Read(6);
  hot_set->Finish();
  EXPECT_EQ(Stored(), (Chunks{5}));
}

TEST_F(MountHotSetTest, ASetGrowsByMuchAndNotByLittle) {
  Use({0, 1, 2, 3, 4, 5, 6, 7});
  Use({1, 20});
  EXPECT_EQ(Stored(), (Chunks{0, 1, 2, 3, 4, 5, 6, 7}));
  Use({20, 1, 21});
  EXPECT_EQ(Stored(), (Chunks{0, 1, 2, 3, 4, 5, 6, 7, 20, 21}));
  options_.use = HotSetUse::kFetch;
  Mounted mounted = Mount();
  const auto hot_set = HotSetOf(mounted);
  for (uint32_t chunk = 0; chunk < kChunks; ++chunk) mounted.Read(chunk);
  hot_set->Finish();
  EXPECT_EQ(Stored().size(), 10u);
}

TEST_F(MountHotSetTest, WithoutTheRightToWriteItStaysOnTheNode) {
  takes_writes_ = false;
  options_.max_kept = 2;
  const auto kept = [&] { return RealFileSystem().List(options_.folder).value_or(std::vector<std::string>()); };
  Use({7, 8});
  EXPECT_TRUE(Stored().empty());
  EXPECT_EQ(kept(), (std::vector<std::string>{image_.Hex() + ".json"}));
  // Also while the store is away.
  is_there_ = false;
  Mounted next = Mount();
  const auto hot_set = HotSetOf(next);
  clock_.AwaitTimers(1);
  EXPECT_EQ(hot_set->facts().phase, HotSetPhase::kFetched);
  EXPECT_EQ(next.KeptChunks(), 2u);
  hot_set->Finish();
  is_there_ = true;
  for (const char* other : {"one", "two"}) {
    image_ = blocks::Sha256Of(other);
    Use({1});
  }
  EXPECT_EQ(kept().size(), 2u);
}

TEST_F(MountHotSetTest, WithoutAStoreNothingIsRecorded) {
  is_there_ = false;
  Mounted mounted = Mount();
  const auto hot_set = HotSetOf(mounted);
  while (hot_set->facts().phase == HotSetPhase::kUnknown) std::this_thread::yield();
  EXPECT_EQ(hot_set->facts().phase, HotSetPhase::kFailed);
  is_there_ = true;  // whether it has a set is not known all the same
  mounted.Read(1);
  hot_set->Finish();
  EXPECT_TRUE(Stored().empty());
}

TEST_F(MountHotSetTest, ADamagedSetIsReplaced) {
  ASSERT_TRUE(
      store_->PutManifest(blocks::HotSetTag(image_), blocks::kManifestMediaType, "{}", Deadline::Infinite()).ok());
  Use({3});
  EXPECT_EQ(Stored(), (Chunks{3}));
}

TEST_F(MountHotSetTest, AGivenSetIsFetchedAndNothingIsRecorded) {
  options_.given = HotSet{{made_.index_digest}, {{0, 9, Duration(0)}}};
  Mounted mounted = Mount();
  const auto hot_set = HotSetOf(mounted);
  while (hot_set->facts().phase != HotSetPhase::kFetched) std::this_thread::yield();
  EXPECT_EQ(mounted.KeptChunks(), 1u);
  mounted.Read(1);
  hot_set->Finish();
  EXPECT_TRUE(Stored().empty());
}

TEST_F(MountHotSetTest, LeftOutItDoesNothing) {
  Use({3});
  options_.use = HotSetUse::kNone;
  Mounted mounted = Mount();
  const auto hot_set = HotSetOf(mounted);
  hot_set->Finish();
  EXPECT_EQ(hot_set->facts().phase, HotSetPhase::kUnknown);
  EXPECT_EQ(mounted.KeptChunks(), 0u);
}

}  // namespace
}  // namespace paceline::snapshotter
