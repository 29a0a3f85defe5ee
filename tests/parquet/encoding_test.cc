// The encodings by their bytes, after the examples in Parquet's own description of them.
#include "analysis/parquet/encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "analysis/parquet/metadata.h"

namespace paceline::analysis {
namespace {

using testing::ElementsAre;

std::string Bytes(std::initializer_list<int> values) {
  std::string bytes;
  for (const int value : values) bytes.push_back(static_cast<char>(value));
  return bytes;
}

TEST(Hybrid, RunsAndPackedGroupsFollowEachOther) {
  // 3 times 4 as a run, then 0 to 7 in three bits each.
  const std::string bytes = Bytes({0x06, 0x04, 0x03, 0b10001000, 0b11000110, 0b11111010});
  std::vector<uint32_t> values;
  ASSERT_TRUE(DecodeHybrid(bytes, 3, 11, values));
  EXPECT_THAT(values, ElementsAre(4, 4, 4, 0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(Hybrid, GivesNoMoreThanAskedFor) {
  std::vector<uint32_t> values = {9};
  ASSERT_TRUE(DecodeHybrid(Bytes({0x20, 0x01}), 1, 5, values));
  EXPECT_THAT(values, ElementsAre(9, 1, 1, 1, 1, 1));
}

TEST(Hybrid, DamagedBytesAreRefused) {
  std::vector<uint32_t> values;
  EXPECT_FALSE(DecodeHybrid("", 3, 1, values));
  EXPECT_FALSE(DecodeHybrid(Bytes({0x00, 0x00}), 3, 1, values));                       // a run of none
  EXPECT_FALSE(DecodeHybrid(Bytes({0x03, 0x88}), 3, 8, values));                       // a group cut off
  EXPECT_FALSE(DecodeHybrid(Bytes({0x06}), 3, 3, values));                             // a run without its value
  EXPECT_FALSE(DecodeHybrid(Bytes({0x06, 0x04}), 33, 3, values));                      // a width that cannot be
  EXPECT_FALSE(DecodeHybrid(std::string(11, static_cast<char>(0xff)), 3, 3, values));  // a number without an end
}

TEST(DeltaBinaryPacked, GoesUpAndDown) {
  // Block of 128 in 4 miniblocks, 5 values from 7: deltas -2, -2, -2, 1 are 0, 0, 0, 3 above the least.
  const std::string bytes =
      Bytes({0x80, 0x01, 0x04, 0x05, 0x0e, 0x03, 0x02, 0x00, 0x00, 0x00, 0b11000000, 0, 0, 0, 0, 0, 0, 0});
  std::vector<int64_t> values;
  size_t used = 0;
  ASSERT_TRUE(DecodeDeltaBinaryPacked(bytes, 5, values, &used));
  EXPECT_THAT(values, ElementsAre(7, 5, 3, 1, 2));
  EXPECT_EQ(used, bytes.size());
}

TEST(PlainBytes, LengthBeyondTheEndIsRefused) {
  std::vector<std::string_view> values;
  const std::string bytes = Bytes({2, 0, 0, 0, 'h', 'i'});  // the values are views into it
  EXPECT_TRUE(DecodePlainBytes(bytes, 1, values));
  EXPECT_THAT(values, ElementsAre("hi"));
  EXPECT_FALSE(DecodePlainBytes(Bytes({3, 0, 0, 0, 'h', 'i'}), 1, values));
  EXPECT_FALSE(DecodePlainBytes(Bytes({2, 0, 0}), 1, values));
}

TEST(ByteStreamSplit, PutsTheStreamsTogether) {
  char to[6];
  ASSERT_TRUE(DecodeByteStreamSplit("acebdf", 3, 2, to));
  EXPECT_EQ(std::string(to, 6), "abcdef");
  EXPECT_FALSE(DecodeByteStreamSplit("acebd", 3, 2, to));
}

// Elements of no size at all would be skipped for hours.
TEST(CompactReader, MapOfMoreTruthValuesThanBytesIsRefused) {
  std::string bytes = Bytes({0x1b});                                       // field 1, a map
  bytes += std::string(8, static_cast<char>(0xff)) + Bytes({0x7f, 0x11});  // of 2^63 pairs of truth values
  EXPECT_EQ(ParseParquetMetadata(bytes).status().code(), StatusCode::kDataLoss);
}

// Nothing is asserted but that no input makes a reader run wild; ASan watches.
TEST(Fuzz, AnyBytesAreSurvived) {
  std::mt19937 random(7);
  for (int round = 0; round < 20000; round++) {
    std::string bytes(random() % 40, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() % 4 == 0 ? 0xff : random() % 256);
    std::vector<uint32_t> indices;
    std::vector<int64_t> numbers;
    std::vector<std::string_view> texts;
    DecodeHybrid(bytes, static_cast<int>(random() % 34), 100, indices);
    DecodeDeltaBinaryPacked(bytes, 100, numbers);
    DecodeDeltaLengthBytes(bytes, 100, texts);
    DecodePlainBytes(bytes, 100, texts);
    EXPECT_LE(indices.size(), 100u);
    EXPECT_LE(numbers.size(), 100u);
    (void)ParseParquetMetadata(bytes);
    (void)ParseParquetPageHeader(bytes);
  }
}

}  // namespace
}  // namespace paceline::analysis
