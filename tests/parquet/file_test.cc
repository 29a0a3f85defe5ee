// Files that PyArrow wrote (tests/data/parquet/make): every value, and a clear refusal of what is not read.
#include "analysis/parquet/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

namespace paceline::analysis {
namespace {

using testing::HasSubstr;

constexpr int kRows = 1000;

std::string PathOf(const std::string& name) {
  return std::string(PACELINE_SOURCE_DIR) + "/tests/data/parquet/" + name + ".parquet";
}

ParquetFile Open(const std::string& path) {
  auto file = ParquetFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status().message();
  return *std::move(file);
}

template <typename T>
T Value(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *std::move(result) : T{};
}

class Written : public testing::TestWithParam<std::string> {};

TEST_P(Written, EveryValueIsRead) {
  const ParquetFile file = Open(PathOf(GetParam()));
  ASSERT_EQ(file.row_count(), size_t{kRows});
  const auto small = Value(file.ReadIntegers<int16_t>("small"));
  const auto narrow = Value(file.ReadIntegers<int32_t>("int"));
  const auto wide = Value(file.ReadIntegers<int64_t>("long"));
  const auto floats = Value(file.ReadFloats("float")), doubles = Value(file.ReadFloats("double"));
  const ParquetTexts texts = Value(file.ReadTexts("text"));
  ASSERT_EQ(small.size(), size_t{kRows});
  ASSERT_EQ(narrow.size(), size_t{kRows});
  ASSERT_EQ(wide.size(), size_t{kRows});
  ASSERT_EQ(floats.size(), size_t{kRows});
  ASSERT_EQ(doubles.size(), size_t{kRows});
  ASSERT_EQ(texts.rows.size(), size_t{kRows});
  EXPECT_EQ(texts.distinct.size(), 7u);
  for (int i = 0; i < kRows; i++) {
    const auto row = static_cast<size_t>(i);
    ASSERT_EQ(small[row], i % 100 - 50) << i;
    ASSERT_EQ(narrow[row], i * 3) << i;
    ASSERT_EQ(wide[row], int64_t{i} << 33) << i;
    ASSERT_EQ(floats[row], static_cast<float>(i) / 8) << i;
    ASSERT_EQ(doubles[row], static_cast<float>(i / 3.0)) << i;
    ASSERT_EQ(texts.distinct[texts.rows[row]], "text-" + std::to_string(i % 7)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(, Written,
                         testing::Values("snappy", "gzip", "zstd", "none", "plain", "version2", "version2-plain",
                                         "row-groups", "encodings"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(ParquetFile, EmptyTableHasNoRows) {
  const ParquetFile file = Open(PathOf("empty"));
  EXPECT_EQ(file.row_count(), 0u);
  EXPECT_TRUE(Value(file.ReadFloats("float")).empty());
}

TEST(ParquetFile, WhatIsNotReadIsRefusedByName) {
  const auto message = [](const auto& result) { return std::string(result.status().message()); };
  EXPECT_THAT(message(Open(PathOf("lz4")).ReadFloats("float")), HasSubstr("compression"));
  EXPECT_THAT(message(Open(PathOf("delta-text")).ReadTexts("text")), HasSubstr("encoding 7"));
  EXPECT_THAT(message(Open(PathOf("null")).ReadIntegers<int32_t>("int")), HasSubstr("row 2 has no value"));
  EXPECT_THAT(message(Open(PathOf("null-version2")).ReadIntegers<int32_t>("int")), HasSubstr("have no value"));
  EXPECT_THAT(message(ParquetFile::Open(PathOf("nested"))), HasSubstr("nested"));
  const ParquetFile file = Open(PathOf("snappy"));
  EXPECT_THAT(message(file.ReadFloats("text")), HasSubstr("column \"text\" is BYTE_ARRAY"));
  EXPECT_THAT(message(file.ReadTexts("int")), HasSubstr("column \"int\" is INT32"));
  EXPECT_THAT(message(file.ReadIntegers<int16_t>("long")), HasSubstr("does not fit"));
  EXPECT_EQ(file.ReadFloats("other").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ParquetFile::Open(PathOf("not-there")).status().code(), StatusCode::kNotFound);
}

class Damaged : public testing::Test {
 public:
  ~Damaged() override { std::filesystem::remove(path_); }

 protected:
  Damaged() : path_(testing::TempDir() + "/damaged-" + std::to_string(::getpid()) + ".parquet") {
    std::ifstream file(PathOf("row-groups"), std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }

  // Opens and reads all; whatever comes, it must be an answer.
  void ReadAll(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    auto file = ParquetFile::Open(path_);
    if (!file.ok()) return;
    (void)file->ReadIntegers<int16_t>("small");
    (void)file->ReadFloats("double");
    (void)file->ReadTexts("text");
  }

  std::string path_;
  std::string bytes_;
};

TEST_F(Damaged, CutOffFileIsNoParquet) {
  for (const size_t size : {size_t{0}, size_t{3}, size_t{8}, bytes_.size() / 2, bytes_.size() - 1}) {
    std::ofstream(path_, std::ios::binary) << bytes_.substr(0, size);
    EXPECT_EQ(ParquetFile::Open(path_).status().code(), StatusCode::kDataLoss) << size;
  }
}

TEST_F(Damaged, FlippedBytesAreSurvived) {
  std::mt19937 random(11);
  for (int round = 0; round < 400; round++) {
    std::string bytes = bytes_;
    for (int i = 0; i < 3; i++) bytes[random() % bytes.size()] = static_cast<char>(random());
    ReadAll(bytes);
  }
}

}  // namespace
}  // namespace paceline::analysis
