#include "lib/hdfs/stripe_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "lib/hdfs/posix_error.h"

namespace paceline::hdfs {
namespace {

using testing::ElementsAre;

constexpr uint64_t kUnitBytes = kMinStripeUnit;

StripeSet Set(uint32_t files, uint64_t length, const std::string& folder = ".f.pl-s") {
  return {.files = files, .unit_bytes = kUnitBytes, .length_bytes = length, .folder = folder};
}

TEST(StripeManifest, ComesBackAsItWasAndHasItsOddLength) {
  const StripeManifest manifest{{Set(8, 123456789), Set(1, 5, ".name with blanks.pl-s")}};
  const Result<std::string> text = EncodeManifest(manifest);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->size(), kManifestBytes);
  EXPECT_EQ(ParseManifest(*text), manifest);
  EXPECT_THAT(*text, testing::HasSubstr("pacectl fs get")) << "a foreign reader is told";
}

TEST(StripeManifest, RefusesWhatIsCutOrChanged) {
  const std::string text = *EncodeManifest({{Set(8, 123456789), Set(3, 77)}});
  for (size_t keep = 0; keep < text.size(); keep += 7) EXPECT_FALSE(ParseManifest(text.substr(0, keep)).has_value());
  const size_t end = text.find("end ");
  for (size_t at = 0; at < end + 12; ++at) {
    for (const int bit : {1, 4, 64}) {
      std::string changed = text;
      changed[at] = static_cast<char>(changed[at] ^ bit);
      EXPECT_FALSE(ParseManifest(changed).has_value()) << at << " " << bit;
    }
  }
  EXPECT_FALSE(ParseManifest(std::string(kManifestBytes, 'x')).has_value());
}

TEST(StripeManifest, RefusesNumbersAndFoldersThatMakeNoSense) {
  const StripeSet sets[] = {Set(0, 1),          Set(65, 1),
                            Set(1, UINT64_MAX), Set(1, 1, "a/b"),
                            Set(1, 1, ".."),    {.files = 1, .unit_bytes = 1, .length_bytes = 1, .folder = "f"}};
  for (const StripeSet& set : sets) {
    const Result<std::string> text = EncodeManifest({{set}});
    ASSERT_TRUE(text.ok());
    EXPECT_FALSE(ParseManifest(*text).has_value()) << set.files << " " << set.folder;
  }
}

TEST(StripeManifest, SaysWhenThereIsNoRoomForAnotherSet) {
  StripeManifest manifest;
  for (size_t i = 0; i < kMaxStripeSets; ++i) manifest.sets.push_back(Set(8, 1));
  EXPECT_TRUE(EncodeManifest(manifest).ok());
  manifest.sets.push_back(Set(8, 1));
  EXPECT_EQ(ErrnoOf(EncodeManifest(manifest).status()), EOPNOTSUPP);
  EXPECT_EQ(ErrnoOf(EncodeManifest({std::vector(15, Set(1, 1, std::string(255, 'x')))}).status()), EOPNOTSUPP);
}

TEST(StripeManifest, CutsFromTheEnd) {
  const StripeManifest whole{{Set(2, 100, "a"), Set(2, 50, "b"), Set(2, 10, "c")}};
  const struct {
    uint64_t length;
    std::vector<uint64_t> kept;
    size_t dropped;
  } cases[] = {{160, {100, 50, 10}, 0},
               {155, {100, 50, 5}, 0},
               {150, {100, 50}, 1},
               {101, {100, 1}, 1},
               {100, {100}, 2},
               {1, {1}, 2},
               {0, {}, 3}};
  for (const auto& c : cases) {
    StripeManifest manifest = whole;
    EXPECT_EQ(manifest.Cut(c.length).size(), c.dropped) << c.length;
    std::vector<uint64_t> kept;
    for (const StripeSet& set : manifest.sets) kept.push_back(set.length_bytes);
    EXPECT_EQ(kept, c.kept) << c.length;
  }
}

TEST(PlanStripes, DealsUnitsRound) {
  using Piece =
      std::tuple<uint32_t, uint64_t, uint64_t, uint64_t>;  // stripe, offset and length in it, offset in the set
  const auto plan = [](uint64_t offset, uint64_t length) {
    std::vector<Piece> pieces;
    for (const StripePiece& piece : PlanStripes(Set(3, 10 * kUnitBytes), {offset, length})) {
      pieces.emplace_back(piece.stripe, piece.in_stripe.offset, piece.in_stripe.length, piece.in_set);
    }
    return pieces;
  };
  EXPECT_THAT(plan(kUnitBytes - 1, 2 * kUnitBytes),
              ElementsAre(Piece{0, kUnitBytes - 1, 1, kUnitBytes - 1}, Piece{1, 0, kUnitBytes, kUnitBytes},
                          Piece{2, 0, kUnitBytes - 1, 2 * kUnitBytes}));
  EXPECT_THAT(plan(4 * kUnitBytes + 5, 7), ElementsAre(Piece{1, kUnitBytes + 5, 7, 4 * kUnitBytes + 5}));
  EXPECT_TRUE(plan(0, 0).empty());
}

TEST(SpanStripes, CoversExactlyWhatThePiecesCover) {
  for (const uint32_t files : {1u, 2u, 5u}) {
    for (const uint64_t offset : {uint64_t{0}, kUnitBytes - 1, kUnitBytes, 3 * kUnitBytes + 17}) {
      for (const uint64_t length : {uint64_t{0}, uint64_t{1}, kUnitBytes, 2 * kUnitBytes + 3, 11 * kUnitBytes - 1}) {
        const StripeSet set = Set(files, 100 * kUnitBytes);
        std::vector<uint64_t> sums(files), firsts(files, UINT64_MAX);
        for (const StripePiece& piece : PlanStripes(set, {offset, length})) {
          sums[piece.stripe] += piece.in_stripe.length;
          firsts[piece.stripe] = std::min(firsts[piece.stripe], piece.in_stripe.offset);
        }
        const std::vector<ByteRange> spans = SpanStripes(set, {offset, length});
        for (uint32_t i = 0; i < files; ++i) {
          EXPECT_EQ(spans[i].length, sums[i]) << files << " " << offset << " " << length;
          if (sums[i] > 0) {
            EXPECT_EQ(spans[i].offset, firsts[i]);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace paceline::hdfs
