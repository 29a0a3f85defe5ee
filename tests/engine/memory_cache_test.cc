#include "lib/blocks/engine/memory_cache.h"

#include <gtest/gtest.h>

namespace paceline::blocks {
namespace {

std::shared_ptr<const std::string> Bytes(size_t size) { return std::make_shared<const std::string>(size, 'x'); }

TEST(MemoryCache, KeepsWhatWasUsedLastWithinItsLimit) {
  MemoryCache cache(100);
  cache.Put({0, 1}, Bytes(40));
  cache.Put({0, 2}, Bytes(40));
  const auto held = cache.Find({0, 1});
  ASSERT_NE(held, nullptr);
  cache.Put({0, 3}, Bytes(40));
  EXPECT_EQ(cache.Find({0, 2}), nullptr);
  EXPECT_EQ(cache.Find({0, 1}), held);
  EXPECT_NE(cache.Find({0, 3}), nullptr);
  cache.Put({0, 4}, Bytes(101));  // would push all others out
  EXPECT_EQ(cache.Find({0, 4}), nullptr);
  EXPECT_NE(cache.Find({0, 3}), nullptr);
}

TEST(MemoryCache, ForgetsALayer) {
  MemoryCache cache(1000);
  for (const uint32_t layer : {1, 2, 3}) cache.Put({layer, 7}, Bytes(10));
  cache.ForgetLayer(2);
  EXPECT_NE(cache.Find({1, 7}), nullptr);
  EXPECT_EQ(cache.Find({2, 7}), nullptr);
  EXPECT_NE(cache.Find({3, 7}), nullptr);
  cache.Put({2, 7}, Bytes(980));
  EXPECT_NE(cache.Find({1, 7}), nullptr);
}

}  // namespace
}  // namespace paceline::blocks
