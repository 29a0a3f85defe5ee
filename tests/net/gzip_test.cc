#include "lib/net/gzip.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/net/gzip_encode.h"

namespace paceline::net {
namespace {

Result<std::string> Decode(std::string_view input, size_t step) {
  GzipDecoder decoder;
  std::string out;
  for (size_t at = 0; at < input.size(); at += step) {
    RETURN_IF_ERROR(decoder.Feed(input.substr(at, step), [&](std::string_view piece) {
      out += piece;
      return Status();
    }));
  }
  RETURN_IF_ERROR(decoder.Finish());
  return out;
}

std::string Text(size_t size) {
  std::string text;
  std::mt19937 random(1);
  while (text.size() < size) text += "pod-" + std::to_string(random() % 1000) + " ";
  return text;
}

TEST(GzipDecoder, DecodesWhateverThePieces) {
  const std::string text = Text(300'000);
  const std::string encoded = GzipEncode(text);
  for (const size_t step : {size_t{1}, size_t{7}, size_t{4096}, encoded.size()}) {
    const Result<std::string> decoded = Decode(encoded, step);
    ASSERT_TRUE(decoded.ok()) << step << decoded.status().ToString();
    EXPECT_TRUE(*decoded == text) << step;
  }
}

TEST(GzipDecoder, DecodesSeveralMembersAndNone) {
  EXPECT_EQ(*Decode(GzipEncode("one ") + GzipEncode("two"), 3), "one two");
  EXPECT_EQ(*Decode(GzipEncode(""), 1), "");
  EXPECT_EQ(*Decode("", 1), "");
}

TEST(GzipDecoder, PassesTheConsumersFailureOn) {
  GzipDecoder decoder;
  const Status status =
      decoder.Feed(GzipEncode("x"), [](std::string_view) { return ResourceExhaustedError("enough"); });
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
}

TEST(GzipDecoder, NoticesEveryCutAndEveryFlippedBitThatMatters) {
  const std::string text = Text(500);
  const std::string encoded = GzipEncode(text);
  for (size_t size = 1; size < encoded.size(); ++size) {
    const Result<std::string> decoded = Decode(std::string_view(encoded).substr(0, size), 16);
    ASSERT_FALSE(decoded.ok()) << size;
    EXPECT_EQ(decoded.status().code(), StatusCode::kDataLoss) << size;
  }
  for (size_t bit = 0; bit < encoded.size() * 8; ++bit) {
    std::string broken = encoded;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << (bit % 8)));
    const Result<std::string> decoded = Decode(broken, 16);
    if (!decoded.ok()) continue;
    EXPECT_EQ(*decoded, text) << bit;  // a flag or time stamp in the member's head
  }
}

}  // namespace
}  // namespace paceline::net
