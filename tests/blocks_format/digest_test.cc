#include "lib/blocks/format/digest.h"

#include <gtest/gtest.h>

namespace paceline::blocks {
namespace {

TEST(Digest, TextForms) {
  const Digest digest = Sha256Of("");
  EXPECT_EQ(digest.ToString(), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(*ParseDigest(digest.ToString()), digest);
  const std::string hex = digest.Hex();
  for (const std::string& text :
       {std::string(), hex, "sha256:" + hex.substr(1), "sha256:" + hex + "0", "sha512:" + hex,
        "sha256:G" + hex.substr(1), "sha256:E" + hex.substr(1), "sha256:../" + hex.substr(3)}) {
    EXPECT_EQ(ParseDigest(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(Sha256, InPiecesAndAgain) {
  Sha256 hash;
  hash.Update("ab");
  hash.Update("");
  hash.Update("c");
  EXPECT_EQ(hash.Finish(), Sha256Of("abc"));
  hash.Update("x");
  EXPECT_EQ(hash.Finish(), Sha256Of("x"));
}

TEST(Crc32c, KnownValuesAndPieces) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(Crc32c(""), 0U);
  EXPECT_EQ(Crc32c("6789", Crc32c("12345")), 0xe3069283U);
}

}  // namespace
}  // namespace paceline::blocks
