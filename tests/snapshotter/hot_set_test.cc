#include "snapshotter/hot_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::snapshotter {
namespace {

using blocks::Access;
using blocks::ChunkId;
using blocks::Sha256Of;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

HotSet Example() {
  return {{Sha256Of("lower"), Sha256Of("upper")},
          {{1, 7, milliseconds(0)}, {0, 3, milliseconds(12)}, {1, 4000000000, milliseconds(90000)}}};
}

TEST(HotSet, ReadsBackWhatItWrote) {
  const Result<HotSet> read = ParseHotSet(EncodeHotSet(Example()));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->layers, Example().layers);
  EXPECT_EQ(read->accesses, Example().accesses);
}

TEST(HotSet, AppliesToTheLayersItNames) {
  EXPECT_THAT(ChunksFor(Example(), {Sha256Of("lower"), Sha256Of("upper")}),
              ElementsAre(ChunkId{1, 7}, ChunkId{0, 3}, ChunkId{1, 4000000000}));
  // Another image on the same base, and one more layer below.
  EXPECT_THAT(ChunksFor(Example(), {Sha256Of("x"), Sha256Of("lower")}), ElementsAre(ChunkId{1, 3}));
  EXPECT_THAT(ChunksFor(Example(), {}), IsEmpty());
}

TEST(HotSet, DamagedTextIsAnErrorOrASetThatMakesSense) {
  const std::string text = EncodeHotSet(Example());
  for (size_t at = 0; at < text.size(); ++at) {
    EXPECT_FALSE(ParseHotSet(text.substr(0, at)).ok());
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const Result<HotSet> read = ParseHotSet(damaged);
      if (!read.ok()) continue;
      for (const Access& access : read->accesses) EXPECT_LT(access.layer, read->layers.size());
      ChunksFor(*read, Example().layers);
    }
  }
}

}  // namespace
}  // namespace paceline::snapshotter
