#include "lib/blocks/engine/fetch_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/made_layer.h"

namespace paceline::blocks {
namespace {

using testing::ElementsAre;

constexpr FetchPriority kDemand = FetchPriority::kDemand, kPrefetch = FetchPriority::kPrefetch,
                        kBackground = FetchPriority::kBackground;

class FetchQueueTest : public testing::Test {
 protected:
  FetchQueueTest() : layer_(std::vector<uint32_t>(12, 2), 1), index_(*LayerIndex::Parse(layer_.index)) {}

  // The chunks of the next batch; {99} when there is none.
  std::vector<uint32_t> Next(FetchPriority* priority = nullptr) {
    const auto first = queue_.TakeFirst();
    if (!first) return {99};
    const FetchBatch batch = queue_.Widen(index_, *first);
    if (priority != nullptr) *priority = batch.priority;
    uint64_t begin = UINT64_MAX, end = 0;
    for (const uint32_t number : batch.chunks) {
      begin = std::min(begin, index_.chunk(number).offset_bytes);
      end = std::max(end, index_.chunk(number).offset_bytes + index_.chunk(number).stored_bytes);
    }
    EXPECT_EQ(batch.offset_bytes, begin);
    EXPECT_EQ(batch.length_bytes, end - begin);
    return batch.chunks;
  }

  MadeLayer layer_;
  LayerIndex index_;
  FetchQueue queue_{{.threads = 4,
                     .prefetch_threads = 3,
                     .background_threads = 1,
                     .max_gap_bytes = 0,
                     .demand_range_bytes = 1 << 20,
                     .range_bytes = 1 << 20}};
};

TEST_F(FetchQueueTest, NeighboursLeaveTogetherWhateverTheirOrder) {
  for (const uint32_t chunk : {5, 3, 4, 8}) EXPECT_TRUE(queue_.Add({0, chunk}, kDemand));
  EXPECT_THAT(Next(), ElementsAre(3, 4, 5));
  EXPECT_THAT(Next(), ElementsAre(8));
  EXPECT_THAT(Next(), ElementsAre(99));
}

TEST_F(FetchQueueTest, AGapIsBridgedUpToItsLimit) {
  FetchQueue queue({.max_gap_bytes = index_.chunk(4).stored_bytes});
  queue.Add({0, 3}, kDemand);
  queue.Add({0, 5}, kDemand);
  EXPECT_THAT(queue.Widen(index_, *queue.TakeFirst()).chunks, ElementsAre(3, 5));
}

TEST_F(FetchQueueTest, ARangeHasALimit) {
  FetchQueue queue({.max_gap_bytes = 0, .demand_range_bytes = 2 * kBlockBytes});
  queue.Add({0, 2}, kDemand);  // does not compress: a range of its own
  queue.Add({0, 3}, kDemand);
  EXPECT_THAT(queue.Widen(index_, *queue.TakeFirst()).chunks, ElementsAre(2));
}

TEST_F(FetchQueueTest, DemandBeforePrefetchBeforeBackground) {
  queue_.Add({0, 0}, kBackground);
  queue_.Add({0, 4}, kPrefetch);
  queue_.Add({0, 8}, kDemand);
  FetchPriority priority;
  EXPECT_THAT(Next(&priority), ElementsAre(8));
  EXPECT_EQ(priority, kDemand);
  EXPECT_THAT(Next(&priority), ElementsAre(4));
  EXPECT_EQ(priority, kPrefetch);
  EXPECT_THAT(Next(), ElementsAre(99));  // background only when nothing better runs
  queue_.Done(kDemand);
  queue_.Done(kPrefetch);
  EXPECT_THAT(Next(&priority), ElementsAre(0));
  EXPECT_EQ(priority, kBackground);
}

TEST_F(FetchQueueTest, ALowerClassLeavesAThreadForReaders) {
  for (const uint32_t chunk : {0, 2, 4, 6, 8}) queue_.Add({0, chunk}, kPrefetch);
  for (int i = 0; i < 3; ++i) EXPECT_NE(Next()[0], 99u);
  EXPECT_THAT(Next(), ElementsAre(99));
  queue_.Add({0, 11}, kDemand);
  EXPECT_THAT(Next(), ElementsAre(11));
  queue_.Add({0, 10}, kDemand);
  EXPECT_THAT(Next(), ElementsAre(99));  // all four threads are busy
  queue_.Done(kPrefetch);
  EXPECT_THAT(Next(), ElementsAre(10));
}

TEST_F(FetchQueueTest, AReaderMovesAChunkUpAndOneBatchTakesIt) {
  queue_.Add({0, 0}, kPrefetch);
  queue_.Add({0, 1}, kPrefetch);
  EXPECT_TRUE(queue_.Add({0, 1}, kDemand));
  EXPECT_FALSE(queue_.Add({0, 1}, kPrefetch));
  EXPECT_EQ(queue_.waiting(), 2u);
  EXPECT_THAT(Next(), ElementsAre(1));  // a reader does not wait for bytes that nobody asked for
  EXPECT_THAT(Next(), ElementsAre(0));
  EXPECT_EQ(queue_.waiting(), 0u);
}

TEST_F(FetchQueueTest, PrefetchTakesBackgroundNeighboursOnlyInItsOwnClass) {
  queue_.Add({0, 0}, kPrefetch);
  queue_.Add({0, 1}, kBackground);
  EXPECT_THAT(Next(), ElementsAre(0));
}

TEST_F(FetchQueueTest, ALayerThatGoesTakesItsChunksAlong) {
  queue_.Add({0, 0}, kDemand);
  queue_.Add({1, 0}, kDemand);
  queue_.RemoveLayer(0);
  EXPECT_EQ(queue_.waiting(), 1u);
  EXPECT_EQ(queue_.TakeFirst()->id.layer, 1u);
}

}  // namespace
}  // namespace paceline::blocks
