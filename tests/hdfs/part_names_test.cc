#include "lib/hdfs/part_names.h"

#include <gtest/gtest.h>

namespace paceline::hdfs {
namespace {

constexpr WriterId kWriter{.start_seconds = 0x65000000, .random = 0x12345678abcdef00};

TEST(PartNames, AreReadBack) {
  EXPECT_EQ(TemporaryName("model.pt", kWriter), ".model.pt.6500000012345678abcdef00.pl-t");
  EXPECT_EQ(PartFileName("model.pt", kWriter, 7), ".model.pt.6500000012345678abcdef00.pl-p000007");
  for (const std::string& name :
       {std::string("a"), std::string(""), std::string(300, 'x'), std::string(200, 'x') + "\xc3\xa4\xc3\xa4",
        std::string(212, 'x') + "\xc3\xa4\xc3\xa4", std::string(213, 'x') + "\xc3\xa4\xc3\xa4"}) {
    const std::string part = PartFileName(name, kWriter, 123456), target = TemporaryName(name, kWriter);
    EXPECT_LE(part.size(), 255u);
    ASSERT_TRUE(ParsePartName(part).has_value()) << part;
    EXPECT_EQ(ParsePartName(part)->writer, kWriter);
    EXPECT_EQ(ParsePartName(part)->part, 123456u);
    ASSERT_TRUE(ParsePartName(target).has_value()) << target;
    EXPECT_EQ(ParsePartName(target)->part, std::nullopt);
  }
}

TEST(PartNames, AreNotSeenInOtherNames) {
  const std::string good = PartFileName("m", kWriter, 1);
  for (size_t i = 0; i < good.size(); ++i)
    EXPECT_FALSE(ParsePartName(good.substr(0, i)).has_value()) << good.substr(0, i);
  for (const char* name : {"", ".", "model.pt", ".model.pt", ".pl-t", "m.6500000012345678abcdef00.pl-t",
                           ".m.6500000012345678abcdefg0.pl-t", ".m.6500000012345678abcdef00.pl-pxxxxxx"}) {
    EXPECT_FALSE(ParsePartName(name).has_value()) << name;
  }
}

TEST(PartNames, GoStaleByAgeAndOnlyOurs) {
  const WallTime now{std::chrono::hours(1000)};
  const std::string part = PartFileName("m", kWriter, 1);
  EXPECT_TRUE(IsStalePart(part, now - std::chrono::hours(3), now, std::chrono::hours(2)));
  EXPECT_FALSE(IsStalePart(part, now - std::chrono::hours(1), now, std::chrono::hours(2)));
  EXPECT_FALSE(IsStalePart(part, now + std::chrono::hours(1), now, std::chrono::hours(2)));
  EXPECT_FALSE(IsStalePart("m", now - std::chrono::hours(3), now, std::chrono::hours(2)));
}

}  // namespace
}  // namespace paceline::hdfs
