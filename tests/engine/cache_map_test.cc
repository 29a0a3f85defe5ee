#include "lib/blocks/engine/cache_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::blocks {
namespace {

TEST(CacheMap, OneHolderAtATime) {
  CacheMap map(3);
  EXPECT_FALSE(map.IsPresent(1));
  EXPECT_FALSE(map.BeginDrop(1));
  ASSERT_TRUE(map.BeginStore(1));
  EXPECT_FALSE(map.BeginStore(1));
  EXPECT_FALSE(map.BeginDrop(1));
  EXPECT_FALSE(map.IsPresent(1));  // not before it is written
  map.Touch(1, 99);
  map.FinishPresent(1, 10);
  EXPECT_TRUE(map.IsPresent(1));
  EXPECT_FALSE(map.BeginStore(1));
  map.Touch(1, 9);
  EXPECT_EQ(map.LastUse(1), 10u);
  map.Touch(1, 12);
  EXPECT_EQ(map.LastUse(1), 12u);
  ASSERT_TRUE(map.BeginDrop(1));
  EXPECT_FALSE(map.IsPresent(1));
  map.FinishAbsent(1);
  EXPECT_TRUE(map.BeginStore(1));
}

TEST(CacheMap, TimesOfUseAreNeverTheWordsForAbsentAndBusy) {
  EXPECT_EQ(UseTime(WallTime(std::chrono::seconds(0))), 2u);
  EXPECT_EQ(UseTime(WallTime(std::chrono::seconds(1577836800 + 500))), 500u);
  EXPECT_EQ(UseTime(WallTime(std::chrono::seconds(9000000000))), UINT32_MAX);
}

TEST(DecodeMap, WhatWasEncoded) {
  const Digest index = Sha256Of("index");
  const std::string bytes = EncodeMapHeader(index, 4) + EncodeMapEntry(0) + EncodeMapEntry(7) + EncodeMapEntry(1) +
                            EncodeMapEntry(UINT32_MAX);
  EXPECT_EQ(EncodeMapHeader(index, 4).size(), kMapHeaderBytes);
  const std::unique_ptr<CacheMap> map = DecodeMap(bytes, index, 4);
  ASSERT_NE(map, nullptr);
  EXPECT_FALSE(map->IsPresent(0));
  EXPECT_TRUE(map->IsPresent(1));
  EXPECT_FALSE(map->IsPresent(2));  // a write that a crash interrupted
  EXPECT_EQ(map->LastUse(3), UINT32_MAX);
  EXPECT_EQ(DecodeMap(bytes, Sha256Of("other"), 4), nullptr);
  EXPECT_EQ(DecodeMap(bytes, index, 3), nullptr);
}

TEST(DecodeMap, DamagedHeadersAndCutFilesAreNoMap) {
  const Digest index = Sha256Of("index");
  const std::string bytes = EncodeMapHeader(index, 2) + EncodeMapEntry(7) + EncodeMapEntry(8);
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_EQ(DecodeMap(bytes.substr(0, size), index, 2), nullptr);
  for (size_t at = 0; at < kMapHeaderBytes; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      EXPECT_EQ(DecodeMap(damaged, index, 2), nullptr) << at;
    }
  }
}

TEST(ChooseVictims, UnusedLayersFirstThenTheLongestUnused) {
  const std::vector<EvictionCandidate> all = {
      {0, 0, 50, 10, true}, {0, 1, 40, 10, true}, {1, 0, 90, 10, false}, {1, 1, 80, 10, false}};
  const auto chosen = [&](uint64_t bytes) {
    std::vector<std::pair<uint32_t, uint32_t>> ids;
    for (const EvictionCandidate& victim : ChooseVictims(all, bytes)) ids.emplace_back(victim.layer, victim.chunk);
    return ids;
  };
  using testing::ElementsAre;
  using testing::IsEmpty;
  using testing::Pair;
  EXPECT_THAT(chosen(0), IsEmpty());
  EXPECT_THAT(chosen(1), ElementsAre(Pair(1, 1)));
  EXPECT_THAT(chosen(11), ElementsAre(Pair(1, 1), Pair(1, 0)));
  EXPECT_THAT(chosen(25), ElementsAre(Pair(1, 1), Pair(1, 0), Pair(0, 1)));
  EXPECT_EQ(chosen(1000).size(), 4u);
}

}  // namespace
}  // namespace paceline::blocks
