#include "lib/hdfs/part_names.h"

#include <gtest/gtest.h>

#include "lib/hdfs/dead_writers.h"

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

TEST(PartNames, OfOneWriterComeTogether) {
  const WriterId other{.start_seconds = 0x65000009, .random = 1};
  const auto at = [](int64_t seconds) { return WallTime(std::chrono::seconds(seconds)); };
  std::vector<FileStatus> entries;
  const auto add = [&](const std::string& name, WallTime modified, FileStatus::Type type = FileStatus::Type::kFile) {
    entries.push_back({.type = type, .name = name, .modified = modified});
  };
  add(PartFileName("m", kWriter, 1), at(0x65000100));
  add(TemporaryName("m", kWriter), at(0x65000050));
  add(PartFileName("m", kWriter, 2), at(0x65000200));
  add(PartFileName("m", other, 1), at(5));  // its clock was wrong, or it was set by hand
  add(StripeFolderName("m", other), at(0x65000300), FileStatus::Type::kDirectory);
  add("m", at(0x65000400));
  add(".hidden", at(0x65000400));
  const std::vector<WriterParts> groups = GroupByWriter(entries);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].writer, kWriter);
  ASSERT_TRUE(groups[0].target.has_value());
  EXPECT_EQ(groups[0].target->name, TemporaryName("m", kWriter));
  EXPECT_EQ(groups[0].parts.size(), 2u);
  EXPECT_EQ(groups[0].changed, at(0x65000200));
  EXPECT_EQ(groups[1].writer, other);
  EXPECT_FALSE(groups[1].target.has_value());
  EXPECT_EQ(groups[1].changed, at(0x65000009)) << "when it started";
}

TEST(DeadWriters, HoldersAreNamedInTheNameNodesAnswers) {
  EXPECT_EQ(LeaseHolderIn("create /d/.f: Failed to CREATE_FILE /d/.f for a_1 on 10.0.0.2 because this file lease is "
                          "currently owned by paceline_h_7_0a on 10.0.0.1 (AlreadyBeingCreatedException)"),
            "paceline_h_7_0a");
  EXPECT_EQ(LeaseHolderIn("... because another recovery is in progress by paceline_h_7_0a on 10.0.0.1"),
            "paceline_h_7_0a");
  for (const char* message :
       {"", "lease recovery is in progress. Try again later.", "currently owned by x", " currently owned by "}) {
    EXPECT_EQ(LeaseHolderIn(message), "") << message;
  }
}

}  // namespace
}  // namespace paceline::hdfs
