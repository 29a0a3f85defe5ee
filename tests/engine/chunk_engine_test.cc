#include "lib/blocks/engine/chunk_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "tests/engine/made_layer.h"
#include "tests/fakes/simulated_clock.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::blocks {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::SizeIs;

class MadePeers final : public ChunkPeers {
 public:
  std::map<Digest, std::string> chunks;
  std::atomic<int> asked{0}, disbelieved{0};
  std::atomic<uint64_t> origin_bytes{0};
  std::function<void()> on_fetch;
  void Fetch(const PeerWant& want, const Take& take, Deadline) override {
    ++asked;
    if (on_fetch) on_fetch();
    for (size_t place = 0; place < want.chunks.size(); ++place) {
      const auto found = chunks.find(want.index.chunk(want.chunks[place]).digest);
      if (found != chunks.end() && !take(place, found->second)) ++disbelieved;
    }
  }
  void NoteOrigin(uint64_t content_bytes, Duration) override { origin_bytes += content_bytes; }
};

class ChunkEngineTest : public testing::Test {
 protected:
  ChunkEngineTest() {
    store_->Add(made_);
    store_->Add(upper_);
    Start();
  }

  void Start(EngineOptions options = {}, uint64_t quota_bytes = 1 << 30, ChunkPeers* peers = nullptr) {
    image_.reset();
    engine_.reset();
    cache_.reset();
    cache_ = *ChunkCache::Open({.folder = folder_ / "cache", .quota_bytes = quota_bytes}, clock_);
    engine_ = std::make_unique<ChunkEngine>(options, *cache_, peers, clock_);
    image_ = OpenImage(store_);
  }

  std::unique_ptr<ImageReader> OpenImage(std::shared_ptr<BlobStore> store) {
    Result<std::unique_ptr<ImageReader>> image = engine_->Open({made_.source(), upper_.source()}, std::move(store));
    EXPECT_TRUE(image.ok()) << image.status().ToString();
    return *std::move(image);
  }

  Status Check(ImageReader& image, const MadeLayer& made, size_t layer, uint64_t offset, size_t size) {
    std::string out(size, 'x');
    RETURN_IF_ERROR(image.Read(layer, offset, out));
    EXPECT_TRUE(out == made.image.substr(offset, size)) << offset << " " << size;
    return Status();
  }
  Status Check(uint64_t offset, size_t size) { return Check(*image_, made_, 0, offset, size); }
  // A few bytes of one chunk.
  Status Touch(uint32_t chunk) { return Check((uint64_t{1} + 4 * chunk) * kBlockBytes + 10, 20); }

  uint64_t StoredBytes(uint32_t chunk) { return image_->index(0).chunk(chunk).stored_bytes; }

  fakes::TemporaryFolder folder_;
  fakes::SimulatedClock clock_;
  const MadeLayer made_{std::vector<uint32_t>(40, 4), 1};
  const MadeLayer upper_{{1, 16, 3, 7}, 2};
  std::shared_ptr<MadeStore> store_ = std::make_shared<MadeStore>();
  MadePeers peers_;
  std::unique_ptr<ChunkCache> cache_;
  std::unique_ptr<ChunkEngine> engine_;
  std::unique_ptr<ImageReader> image_;
};

TEST_F(ChunkEngineTest, ReadsAreTheImage) {
  const std::pair<uint64_t, size_t> cases[] = {{0, 4096},
                                               {1024, 10},
                                               {4095, 2},
                                               {0, 100000},
                                               {16384, 65536},
                                               {made_.image.size() - 5000, 5000},
                                               {160 * 4096, 8192},
                                               {0, made_.image.size()},
                                               {77, 0}};
  for (const auto& [offset, size] : cases) EXPECT_TRUE(Check(offset, size).ok()) << offset;
  for (uint64_t at = 0; at + 30000 < upper_.image.size(); at += 12345) {
    EXPECT_TRUE(Check(*image_, upper_, 1, at, 30000).ok());
  }
  EXPECT_EQ(Check(made_.image.size(), 1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Check(made_.image.size() - 1, 2).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Check(UINT64_MAX, 2).code(), StatusCode::kInvalidArgument);
}

TEST_F(ChunkEngineTest, OnlyWhatIsTouchedIsFetchedAndOnce) {
  ASSERT_TRUE(Touch(7).ok());
  EXPECT_EQ(store_->read_bytes(), StoredBytes(7));
  ASSERT_TRUE(Touch(7).ok());
  ASSERT_TRUE(Check(0, 4096).ok());  // metadata came with the index
  EXPECT_EQ(store_->read_bytes(), StoredBytes(7));
  const ImageStats stats = image_->stats();
  EXPECT_EQ(stats.chunk_misses, 1u);
  EXPECT_EQ(stats.chunk_hits, 1u);
  EXPECT_EQ(stats.origin_bytes, StoredBytes(7));
  EXPECT_EQ(stats.origin_requests, 1u);
  EXPECT_EQ(stats.read_bytes, 20u + 20u + 4096u);
}

TEST_F(ChunkEngineTest, ALargeReadIsFewRanges) {
  ASSERT_TRUE(Check(kBlockBytes, 160 * kBlockBytes).ok());
  // Nobody fetched a chunk twice, and no request was for one chunk alone except by the race of the first.
  EXPECT_LE(store_->reads().size(), 9u);
  EXPECT_EQ(store_->read_bytes(), made_.blob.size());
}

TEST_F(ChunkEngineTest, ManyReadersOfAChunkCauseOneFetch) {
  std::atomic<bool> may_end{false};
  store_->SetFault([&](const auto&, auto) {
    may_end.wait(false);
    return Status();
  });
  std::vector<std::jthread> readers;
  for (int i = 0; i < 8; ++i) readers.emplace_back([this] { EXPECT_TRUE(Touch(3).ok()); });
  clock_.AwaitTimers(8);
  may_end = true;
  may_end.notify_all();
  readers.clear();
  EXPECT_THAT(store_->reads(), SizeIs(1));
}

TEST_F(ChunkEngineTest, ARestartNeedsNoStore) {
  ASSERT_TRUE(Check(0, made_.image.size()).ok());
  store_->SetFault([](const auto&, auto) { return UnavailableError("no network"); });
  Start();
  EXPECT_TRUE(Check(0, made_.image.size()).ok());
  EXPECT_EQ(image_->stats().chunk_misses, 0u);
  EXPECT_GT(image_->stats().disk_bytes, 0u);
}

TEST_F(ChunkEngineTest, AFailureIsSaidAndTheNextReadTriesAgain) {
  store_->SetFault([](const auto&, auto) { return UnavailableError("down"); });
  EXPECT_EQ(Touch(5).code(), StatusCode::kUnavailable);
  EXPECT_EQ(image_->stats().failed_reads, 1u);
  EXPECT_TRUE(Check(0, 4096).ok());
  store_->SetFault(nullptr);
  EXPECT_TRUE(Touch(5).ok());
}

TEST_F(ChunkEngineTest, AReadEndsAtItsLimit) {
  std::atomic<bool> may_end{false};
  store_->SetFault([&](const auto&, auto) {
    may_end.wait(false);
    return Status();
  });
  std::jthread reader([this] { EXPECT_EQ(Touch(5).code(), StatusCode::kDeadlineExceeded); });
  clock_.AwaitTimers(1);
  clock_.Advance(seconds(30));
  reader.join();
  may_end = true;
  may_end.notify_all();
  EXPECT_TRUE(Touch(5).ok());  // it came late, and is kept
}

TEST_F(ChunkEngineTest, DamageOnTheWayCostsOneMoreRequest) {
  std::atomic<int> damaged{0};
  store_->SetFault([&](const auto&, std::span<char> out) {
    if (damaged++ == 0) out[out.size() / 2] ^= 1;
    return Status();
  });
  EXPECT_TRUE(Touch(5).ok());
  EXPECT_THAT(store_->reads(), SizeIs(2));
  EXPECT_EQ(image_->stats().damaged_chunks, 1u);
  EXPECT_EQ(image_->stats().lost_chunks, 0u);
}

TEST_F(ChunkEngineTest, WhatTheStoreHasLostIsCountedAndAStoreThatIsAwayIsNot) {
  store_->SetFault([](const auto&, auto) { return UnavailableError("down"); });
  EXPECT_FALSE(Touch(5).ok());
  EXPECT_EQ(image_->stats().lost_chunks, 0u);
  store_->SetFault([](const auto&, auto) { return NotFoundError("no such blob"); });
  EXPECT_FALSE(Touch(5).ok());
  EXPECT_EQ(image_->stats().lost_chunks, 1u);
}

TEST_F(ChunkEngineTest, DamageThatStaysIsAnErrorAndNothingIsKept) {
  store_->SetFault([&](const auto&, std::span<char> out) {
    out[out.size() / 2] ^= 1;
    return Status();
  });
  EXPECT_EQ(Touch(5).code(), StatusCode::kDataLoss);
  EXPECT_THAT(store_->reads(), SizeIs(2));  // and it ends
  EXPECT_EQ(cache_->stats().used_bytes, 0u);
  EXPECT_EQ(image_->stats().lost_chunks, 1u);
  // Of a range only the damaged chunk fails.
  store_->SetFault([&](const MadeStore::Read& read, std::span<char> out) {
    const Chunk bad = image_->index(0).chunk(9);
    if (read.offset_bytes <= bad.offset_bytes && bad.offset_bytes < read.offset_bytes + read.length_bytes) {
      out[bad.offset_bytes - read.offset_bytes + 5] ^= 1;
    }
    return Status();
  });
  image_->Prefetch({{0, 8}, {0, 9}, {0, 10}}, FetchPriority::kPrefetch);
  ASSERT_TRUE(engine_->AwaitIdle(Deadline::Infinite()));
  store_->SetFault([](const auto&, auto) { return UnavailableError("down"); });
  EXPECT_TRUE(Touch(8).ok());
  EXPECT_FALSE(Touch(9).ok());
  EXPECT_TRUE(Touch(10).ok());
}

TEST_F(ChunkEngineTest, AFlippedBitOnDiskIsMendedFromTheStore) {
  ASSERT_TRUE(Check(0, made_.image.size()).ok());
  Start();  // so that memory is empty
  const std::string path = folder_ / ("cache/layers/" + made_.index_digest.Hex() + "/image");
  const uint64_t at = (1 + 4 * 6) * kBlockBytes + 99;
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(made_.image[at] ^ 1));
  }
  store_->SetFault(nullptr);
  EXPECT_TRUE(Touch(6).ok());
  EXPECT_EQ(cache_->stats().damaged_chunks, 1u);
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  engine_->AwaitIdle(Deadline::Infinite());
  EXPECT_EQ(static_cast<char>(file.get()), made_.image[at]);
}

// Two images share a layer; the credentials of the first one are revoked.
TEST_F(ChunkEngineTest, AnotherImagesStoreHelpsWhenTheFirstRefuses) {
  store_->SetFault([](const auto&, auto) { return PermissionDeniedError("revoked"); });
  EXPECT_EQ(Touch(1).code(), StatusCode::kPermissionDenied);
  const auto good = std::make_shared<MadeStore>();
  good->Add(made_);
  good->Add(upper_);
  const auto second = OpenImage(good);
  EXPECT_TRUE(Check(*second, made_, 0, kBlockBytes, 100).ok());
  EXPECT_TRUE(Touch(2).ok());
  // And with the second image gone, so is its store.
  const_cast<std::unique_ptr<ImageReader>&>(second).reset();
  EXPECT_EQ(Touch(3).code(), StatusCode::kPermissionDenied);
}

TEST_F(ChunkEngineTest, PrefetchIsNotAnAccess) {
  image_->Prefetch({{0, 4}, {0, 5}, {1, 1}, {0, 999}, {9, 0}}, FetchPriority::kPrefetch);
  ASSERT_TRUE(engine_->AwaitIdle(Deadline::Infinite()));
  EXPECT_EQ(image_->stats().prefetched_bytes, store_->read_bytes());
  ASSERT_TRUE(Touch(5).ok());
  ASSERT_TRUE(Touch(9).ok());
  ASSERT_TRUE(Touch(4).ok());
  ASSERT_TRUE(Check(0, 4096).ok());
  EXPECT_EQ(image_->stats().chunk_misses, 1u);
  std::vector<uint32_t> chunks;
  for (const Access& access : image_->accesses().accesses()) chunks.push_back(access.chunk);
  EXPECT_THAT(chunks, ElementsAre(5, 9, 4));  // hits count, too
}

TEST_F(ChunkEngineTest, AReaderOvertakesPrefetch) {
  // Two threads, one of which prefetch may use.
  Start(
      {.fetch = {.threads = 2, .prefetch_threads = 1, .background_threads = 1, .max_gap_bytes = 0, .range_bytes = 1}});
  std::atomic<int> held{0};
  std::atomic<bool> may_end{false};
  store_->SetFault([&](const MadeStore::Read& read, auto) {
    if (read.offset_bytes == image_->index(0).chunk(0).offset_bytes) {
      ++held;
      may_end.wait(false);
    }
    return Status();
  });
  std::vector<ChunkId> many;
  for (uint32_t i = 0; i < 30; ++i) many.push_back({0, i});
  image_->Prefetch(many, FetchPriority::kPrefetch);
  EXPECT_TRUE(Touch(39).ok());  // while prefetch hangs on its first chunk
  EXPECT_TRUE(Touch(20).ok());  // also one that waits in its line
  EXPECT_LE(held, 1);
  may_end = true;
  may_end.notify_all();
  ASSERT_TRUE(engine_->AwaitIdle(Deadline::Infinite()));
  EXPECT_TRUE(Touch(29).ok());
  EXPECT_EQ(image_->stats().chunk_misses, 2u);
}

TEST_F(ChunkEngineTest, PeersComeFirstAndAreNotBelieved) {
  MadePeers& peers = peers_;
  Start({}, 1 << 30, &peers);
  const auto content = [&](uint32_t number) {
    return made_.image.substr((1 + 4 * size_t{number}) * kBlockBytes, 4 * kBlockBytes);
  };
  peers.chunks[Sha256Of(content(1))] = content(1);
  peers.chunks[Sha256Of(content(2))] = content(3);
  peers.chunks[Sha256Of(content(4))] = "short";
  EXPECT_TRUE(Touch(1).ok());
  EXPECT_THAT(store_->reads(), SizeIs(0));
  EXPECT_TRUE(Touch(2).ok());
  EXPECT_TRUE(Touch(4).ok());
  EXPECT_TRUE(Touch(6).ok());
  EXPECT_THAT(store_->reads(), SizeIs(3));
  EXPECT_EQ(image_->stats().peer_bytes, 4u * kBlockBytes);
  EXPECT_EQ(image_->stats().damaged_chunks, 2u);
  EXPECT_EQ(peers.asked, 4);
  ASSERT_TRUE(engine_->AwaitIdle(Deadline::Infinite()));
  EXPECT_EQ(peers.disbelieved, 2);
  EXPECT_EQ(peers.origin_bytes, 3u * 4 * kBlockBytes);
}

// The range that was meant for all of them must not bring the middle once more.
TEST_F(ChunkEngineTest, WhatPeersGaveIsNotFetchedAgainWithItsNeighbours) {
  MadePeers& peers = peers_;
  Start({.fetch = {.max_gap_bytes = 0}}, 1 << 30, &peers);
  std::vector<ChunkId> wanted;
  uint64_t left_bytes = 0;
  for (uint32_t number = 10; number < 20; ++number) {
    wanted.push_back({0, number});
    const std::string content = made_.image.substr((1 + 4 * size_t{number}) * kBlockBytes, 4 * kBlockBytes);
    if (number >= 12 && number < 18) {
      peers.chunks[Sha256Of(content)] = content;
    } else {
      left_bytes += StoredBytes(number);
    }
  }
  image_->Prefetch(wanted, FetchPriority::kPrefetch);
  ASSERT_TRUE(engine_->AwaitIdle(Deadline::Infinite()));
  EXPECT_EQ(store_->read_bytes(), left_bytes);
  EXPECT_EQ(image_->stats().peer_bytes, 6u * 4 * kBlockBytes);
  for (uint32_t number = 10; number < 20; ++number) EXPECT_TRUE(Touch(number).ok());
  EXPECT_EQ(image_->stats().chunk_misses, 0u);
}

TEST_F(ChunkEngineTest, GivesWhatItHasAndFetchesFromTheOriginForOthers) {
  MadePeers& peers = peers_;
  Start({}, 1 << 30, &peers);
  ASSERT_TRUE(Touch(3).ok());
  ASSERT_TRUE(engine_->AwaitIdle(Deadline::Infinite()));
  const int asked = peers.asked;
  const auto content = [&](uint32_t number) {
    return made_.image.substr((1 + 4 * size_t{number}) * kBlockBytes, 4 * kBlockBytes);
  };
  GiveTerms terms{.may_fetch = false, .max_bytes = 1 << 20};
  Result<ChunkEngine::Given> given = engine_->Give(made_.index_digest, {3, 4}, terms);
  ASSERT_TRUE(given.ok()) << given.status().ToString();
  EXPECT_TRUE(*given->contents[0] == content(3));
  EXPECT_EQ(given->contents[1], nullptr);
  EXPECT_THAT(store_->reads(), SizeIs(1));

  terms.may_fetch = true;
  given = engine_->Give(made_.index_digest, {3, 4, 30}, terms);
  ASSERT_TRUE(given.ok());
  EXPECT_TRUE(*given->contents[0] == content(3));
  EXPECT_TRUE(*given->contents[1] == content(4));
  EXPECT_TRUE(*given->contents[2] == content(30));
  EXPECT_EQ(peers.asked, asked) << "a request of a peer was passed on";
  ASSERT_TRUE(Touch(4).ok());  // and is kept
  EXPECT_EQ(image_->stats().chunk_misses, 1u);

  EXPECT_EQ(engine_->Give(made_.index_digest, {40}, terms).status().code(), StatusCode::kInvalidArgument);
  terms.max_bytes = 4 * kBlockBytes;
  EXPECT_EQ(engine_->Give(made_.index_digest, {3, 4}, terms).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(engine_->Give(made_.index_digest, {3}, terms).ok());
  EXPECT_EQ(engine_->Give(Sha256Of("another"), {3}, terms).status().code(), StatusCode::kNotFound);
}

TEST_F(ChunkEngineTest, GivesFromLayersThatNobodyHasOpen) {
  ASSERT_TRUE(Touch(3).ok());
  ASSERT_TRUE(engine_->AwaitIdle(Deadline::Infinite()));
  image_.reset();
  const Result<ChunkEngine::Given> given =
      engine_->Give(made_.index_digest, {3, 4}, {.may_fetch = true, .max_bytes = 1 << 20});
  ASSERT_TRUE(given.ok());
  EXPECT_NE(given->contents[0], nullptr);
  EXPECT_EQ(given->contents[1], nullptr);  // there is no origin any more
}

TEST_F(ChunkEngineTest, NeverGivesWhatTheDiskHasChanged) {
  ASSERT_TRUE(Touch(6).ok());
  Start();  // so that memory is empty
  {
    std::fstream file(folder_ / ("cache/layers/" + made_.index_digest.Hex() + "/image"),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp((1 + 4 * 6) * kBlockBytes + 99);
    file.put(static_cast<char>(made_.image[(1 + 4 * 6) * kBlockBytes + 99] ^ 1));
  }
  const Result<ChunkEngine::Given> given = engine_->Give(made_.index_digest, {6}, {.max_bytes = 1 << 20});
  ASSERT_TRUE(given.ok());
  EXPECT_EQ(given->contents[0], nullptr);
}

TEST_F(ChunkEngineTest, OthersWaitOnceAndNotForEver) {
  std::atomic<bool> may_end{false};
  store_->SetFault([&](const auto&, auto) {
    may_end.wait(false);
    return Status();
  });
  const GiveTerms terms{
      .may_fetch = true, .max_bytes = 1 << 20, .origin_deadline = Deadline::After(clock_, seconds(2))};
  std::jthread other([&] {
    const Result<ChunkEngine::Given> given = engine_->Give(made_.index_digest, {5}, terms);
    ASSERT_TRUE(given.ok());
    EXPECT_EQ(given->contents[0], nullptr);
    EXPECT_EQ(given->waited, seconds(2));
  });
  clock_.AwaitTimers(1);
  clock_.Advance(seconds(2));
  other.join();
  std::jthread reader([this] { EXPECT_TRUE(Touch(5).ok()); });
  std::jthread third([&] {
    const auto given = engine_->Give(
        made_.index_digest, {5},
        {.may_fetch = true, .max_bytes = 1 << 20, .origin_deadline = Deadline::After(clock_, seconds(2))});
    EXPECT_TRUE(given.ok() && given->contents[0] != nullptr);
  });
  clock_.AwaitTimers(2);
  may_end = true;
  may_end.notify_all();
  reader.join();
  third.join();
  EXPECT_THAT(store_->reads(), SizeIs(1));
}

// All threads of this node may be waiting for the node that asks.
TEST_F(ChunkEngineTest, OthersDoNotWaitForThreadsThatWaitForPeers) {
  MadePeers& peers = peers_;
  std::atomic<int> held{0};
  std::atomic<bool> may_end{false};
  peers.on_fetch = [&] {
    ++held;
    may_end.wait(false);
  };
  Start({.fetch = {.threads = 2, .prefetch_threads = 2, .max_gap_bytes = 0, .range_bytes = 1}}, 1 << 30, &peers);
  image_->Prefetch({{0, 1}, {0, 3}, {0, 5}, {0, 7}}, FetchPriority::kPrefetch);
  while (held < 2) std::this_thread::yield();
  const auto given = engine_->Give(made_.index_digest, {7, 9}, {.may_fetch = true, .max_bytes = 1 << 20});
  ASSERT_TRUE(given.ok());
  EXPECT_NE(given->contents[0], nullptr);  // though it waits in the line of prefetch
  EXPECT_NE(given->contents[1], nullptr);
  may_end = true;
  may_end.notify_all();
  ASSERT_TRUE(engine_->AwaitIdle(Deadline::Infinite()));
}

TEST_F(ChunkEngineTest, TheEndOfAnImageEndsTheWaitOfOthers) {
  std::atomic<bool> may_end{false};
  store_->SetFault([&](const auto&, auto) {
    may_end.wait(false);
    return Status();
  });
  std::jthread other([&] {
    const auto given = engine_->Give(
        upper_.index_digest, {1},
        {.may_fetch = true, .max_bytes = 1 << 20, .origin_deadline = Deadline::After(clock_, std::chrono::hours(1))});
    ASSERT_TRUE(given.ok());
    EXPECT_EQ(given->contents[0], nullptr);
  });
  clock_.AwaitTimers(1);
  image_.reset();
  other.join();
  may_end = true;
  may_end.notify_all();
  ASSERT_TRUE(engine_->AwaitIdle(Deadline::Infinite()));  // the thread that waits for it is done with it
}

TEST_F(ChunkEngineTest, AQuotaSmallerThanTheImageCompletes) {
  Start({.memory_bytes = 0}, 10 * 4 * kBlockBytes);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(Check(0, made_.image.size()).ok());
    engine_->AwaitIdle(Deadline::Infinite());
    EXPECT_LE(cache_->stats().used_bytes, 10u * 4 * kBlockBytes);
  }
  EXPECT_GT(cache_->stats().evicted_chunks, 0u);
}

TEST_F(ChunkEngineTest, TheEndDropsWhatWaits) {
  std::atomic<bool> may_end{false};
  store_->SetFault([&](const auto&, auto) {
    may_end.wait(false);
    return Status();
  });
  std::vector<ChunkId> many;
  for (uint32_t i = 0; i < 40; ++i) many.push_back({0, i});
  image_->Prefetch(many, FetchPriority::kBackground);
  std::jthread release([&] {
    may_end = true;
    may_end.notify_all();
  });
  image_.reset();
  engine_.reset();
}

}  // namespace
}  // namespace paceline::blocks
