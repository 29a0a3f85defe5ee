// Erasure-coded files: the layout and the arithmetic here, and reading on the real HDFS of the test bed, where some
// DataNodes are stopped meanwhile (scripts/testbed up hdfs --hdfs-datanodes 5; five are needed for RS-3-2).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>

#include "lib/hdfs/ec_decode.h"
#include "lib/hdfs/ec_policy.h"
#include "lib/hdfs/open.h"
#include "lib/hdfs/posix_error.h"

namespace paceline::hdfs {
namespace {

using Codec = EcPolicy::Codec;
constexpr uint64_t kCell = 1 << 20;

TEST(EcPolicy, KnowsHadoopsOwn) {
  ASSERT_TRUE(SystemEcPolicy(2).has_value());
  EXPECT_EQ(SystemEcPolicy(2)->name, "RS-3-2-1024k");
  EXPECT_EQ(SystemEcPolicy(4)->codec, Codec::kXor);
  EXPECT_FALSE(SystemEcPolicy(0).has_value());
  EXPECT_FALSE(SystemEcPolicy(70).has_value());
}

TEST(EcPolicy, UnitsEndWhereTheLastRowDoes) {
  const EcPolicy policy = *SystemEcPolicy(2);
  const struct {
    uint64_t group;
    std::vector<uint64_t> units;  // three of data, two of parity
  } cases[] = {
      {0, {0, 0, 0, 0, 0}},
      {1, {1, 0, 0, 1, 1}},
      {kCell, {kCell, 0, 0, kCell, kCell}},
      {kCell + 7, {kCell, 7, 0, kCell, kCell}},
      {3 * kCell, {kCell, kCell, kCell, kCell, kCell}},
      {5 * kCell + 9, {2 * kCell, 2 * kCell, kCell + 9, 2 * kCell, 2 * kCell}},
  };
  for (const auto& c : cases) {
    for (uint32_t i = 0; i < 5; ++i)
      EXPECT_EQ(EcUnitLength(policy, c.group, i), c.units[i]) << c.group << " unit " << i;
  }
}

TEST(EcPolicy, UnitsAreBlocksOfTheirOwn) {
  const EcPolicy policy = *SystemEcPolicy(2);
  LocatedBlock full{.block = {.block_id = 1000, .length_bytes = 6 * kCell},
                    .nodes = {{.ip = "a"}, {.ip = "b"}, {.ip = "c"}}};
  full.unit_indexes = {4, 0, 2};
  full.unit_tokens = {{.identifier = "4"}, {.identifier = "0"}, {.identifier = "2"}};
  LocatedBlock last = full;
  last.block = {.block_id = 2000, .length_bytes = kCell + 5};
  last.offset = 6 * kCell;
  last.unit_tokens.clear();
  last.token.identifier = "group";
  const LocatedBlock groups[] = {full, last};

  const std::vector<LocatedBlock> first = EcUnitBlocks(policy, groups, 0);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].block.block_id, 1000u);
  EXPECT_EQ(first[0].nodes.at(0).ip, "b");
  EXPECT_EQ(first[0].token.identifier, "0");
  EXPECT_EQ(first[1].offset, 2 * kCell);
  EXPECT_EQ(first[1].block.length_bytes, kCell);
  EXPECT_EQ(first[1].token.identifier, "group");
  const std::vector<LocatedBlock> lost = EcUnitBlocks(policy, groups, 1);
  ASSERT_EQ(lost.size(), 2u);
  EXPECT_EQ(lost[1].block.block_id, 2001u);
  EXPECT_EQ(lost[1].block.length_bytes, 5u);
  EXPECT_TRUE(lost[0].nodes.empty());
  EXPECT_EQ(EcUnitBlocks(policy, groups, 2).size(), 1u) << "it has no byte of the last group";
  EXPECT_EQ(EcUnitBlocks(policy, groups, 4).size(), 2u);
  // A list of indexes that is too short matches nobody.
  full.unit_indexes.clear();
  EXPECT_TRUE(EcUnitBlocks(policy, std::span(&full, 1), 0).at(0).nodes.empty());
}

std::vector<std::byte> Noise(size_t size, uint64_t seed) {
  std::vector<std::byte> bytes(size);
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

TEST(EcDecode, AnyUnitComesBackFromAnyOthers) {
  for (const uint32_t id : {1u, 2u, 4u, 5u}) {
    const EcPolicy policy = *SystemEcPolicy(id);
    const uint32_t all = policy.data_units + policy.parity_units;
    std::vector<uint32_t> data_units;
    std::vector<std::vector<std::byte>> units;
    for (uint32_t i = 0; i < policy.data_units; ++i) {
      data_units.push_back(i);
      units.push_back(Noise(1003, i));
    }
    for (uint32_t i = policy.data_units; i < all; ++i) {
      std::vector<std::byte> parity(1003);
      const std::vector<std::vector<std::byte>> data(units.begin(), units.begin() + policy.data_units);
      ASSERT_TRUE(EcCompute(policy, data_units, data, i, parity).ok());
      units.push_back(std::move(parity));
    }
    for (uint32_t lost = 0; lost < all; ++lost) {
      // The last ones that are left, so that as much parity as possible takes part.
      std::vector<uint32_t> available;
      std::vector<std::vector<std::byte>> contents;
      for (uint32_t i = all; i-- > 0 && available.size() < policy.data_units;) {
        if (i == lost) continue;
        available.push_back(i);
        contents.push_back(units[i]);
      }
      std::vector<std::byte> out(1003);
      ASSERT_TRUE(EcCompute(policy, available, contents, lost, out).ok());
      EXPECT_TRUE(out == units[lost]) << policy.name << " unit " << lost;
    }
  }
}

TEST(EcDecode, RefusesWhatItDoesNotKnow) {
  const EcPolicy policy = *SystemEcPolicy(3);
  std::vector<std::byte> out(8);
  const std::vector<std::vector<std::byte>> contents(6, std::vector<std::byte>(8));
  const std::vector<uint32_t> available = {0, 1, 2, 3, 4, 6};
  const Status status = EcCompute(policy, available, contents, 5, out);
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), testing::HasSubstr("RS-LEGACY-6-3-1024k"));
}

// On a real cluster, with files that Hadoop's client writes.
class RealErasureCoding : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* uri = std::getenv("HDFS_URI");
    const char* mode = std::getenv("HDFS_MODE");
    if (uri == nullptr || mode == nullptr || std::string(mode) != "jvm") {
      GTEST_SKIP() << "needs scripts/testbed up hdfs --hdfs-datanodes 5";
    }
    if (Bed("do erasure-code " + std::string(GetParam()) + " /ec") != 0) GTEST_SKIP() << "the cluster is too small";
    const Result<Location> location = ParseLocation(uri);
    ASSERT_TRUE(location.ok());
    FileSystemOptions options;
    options.config = *LoadHadoopConfig("");
    Result<std::unique_ptr<FileSystem>> fs = OpenFileSystem(*location, options, clock_);
    ASSERT_TRUE(fs.ok()) << fs.status().ToString();
    fs_ = *std::move(fs);
  }
  void TearDown() override {
    for (const std::string& node : stopped_) EXPECT_EQ(Bed("start " + node), 0);
    if (fs_ != nullptr) fs_->Remove("/ec", RemoveMode::kRecursive, In()).IgnoreError();
  }

  static int Bed(const std::string& command) {
    return std::system(fmt::format("{}/scripts/testbed hdfs {} >/dev/null 2>&1", PACELINE_SOURCE_DIR, command).c_str());
  }
  Deadline In() const { return Deadline::After(clock_, std::chrono::seconds(60)); }

  void Stop(const std::string& host) {  // "10.99.0.4K:9866" is dnK
    const std::string address = host.substr(0, host.find(':'));
    stopped_.push_back(fmt::format("dn{}", std::atoi(address.substr(address.rfind('.') + 1).c_str()) - 40));
    ASSERT_EQ(Bed("stop " + stopped_.back()), 0);
  }

  RealClock clock_;
  std::unique_ptr<FileSystem> fs_;
  std::vector<std::string> stopped_;
};

TEST_P(RealErasureCoding, ReadsWhatHadoopWroteAlsoWithoutSomeDataNodes) {
  // Over two groups of 3 x 16 MiB blocks, and odd at the end.
  const std::vector<std::byte> content = Noise((70 << 20) + 12345, 7);
  char name[] = "/tmp/ec-XXXXXX";
  const int fd = mkstemp(name);
  ASSERT_EQ(write(fd, content.data(), content.size()), static_cast<ssize_t>(content.size()));
  close(fd);
  ASSERT_EQ(Bed(fmt::format("dfs -put -f {} /ec/f", name)), 0);
  unlink(name);

  const Result<FileStatus> status = fs_->Stat("/ec/f", In());
  ASSERT_TRUE(status.ok());
  EXPECT_TRUE(status->is_erasure_coded);
  const auto read = [&](size_t piece) {
    Result<std::unique_ptr<Reader>> reader = fs_->Open("/ec/f", In());
    if (!reader.ok()) return reader.status();
    std::vector<std::byte> back(content.size());
    for (size_t at = 0; at < back.size(); at += piece) {
      const auto place = std::span(back).subspan(at, std::min(piece, back.size() - at));
      const Result<size_t> got = (*reader)->Read(at, place, In());
      if (!got.ok()) return got.status();
      if (*got != place.size()) return DataLossError("too little");
    }
    return back == content ? Status() : DataLossError("other bytes");
  };
  for (const size_t piece : {content.size(), size_t{1 << 20}, size_t{777777}}) {
    const Status whole = read(piece);
    EXPECT_TRUE(whole.ok()) << piece << ": " << whole.ToString();
  }
  const Result<std::vector<BlockLocation>> blocks = fs_->Locate("/ec/f", {0, INT64_MAX}, In());
  ASSERT_TRUE(blocks.ok() && !blocks->empty());
  ASSERT_NO_FATAL_FAILURE(Stop(blocks->front().hosts.front()));
  const Status without_one = read(1 << 20);
  EXPECT_TRUE(without_one.ok()) << without_one.ToString();
  if (std::string(GetParam()).starts_with("RS")) {
    ASSERT_NO_FATAL_FAILURE(Stop(blocks->front().hosts.at(2)));
    const Status without_two = read(1 << 20);
    EXPECT_TRUE(without_two.ok()) << without_two.ToString();
  }
}

TEST_P(RealErasureCoding, WritesOrdinaryFilesAndRefusesToAppend) {
  ASSERT_EQ(Bed("dfs -put -f /etc/hostname /ec/theirs"), 0);
  EXPECT_EQ(ErrnoOf(fs_->Append("/ec/theirs", In()).status()), EOPNOTSUPP);
  Result<std::unique_ptr<Writer>> writer = fs_->Create("/ec/ours", {}, In());
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  ASSERT_TRUE((*writer)->Write(std::as_bytes(std::span("ours", 4)), In()).ok());
  const Status closed = (*writer)->Close(In());
  ASSERT_TRUE(closed.ok()) << closed.ToString();
  EXPECT_FALSE(fs_->Stat("/ec/ours", In())->is_erasure_coded);
  EXPECT_EQ(ReadWholeFile(*fs_, "/ec/ours", 100, In()).value(), "ours");
}

INSTANTIATE_TEST_SUITE_P(, RealErasureCoding, testing::Values("RS-3-2-1024k", "XOR-2-1-1024k"),
                         [](const auto& info) { return std::string(info.param).substr(0, 2) == "RS" ? "Rs" : "Xor"; });

class RealEncryption : public testing::Test {};

TEST_F(RealEncryption, ZonesAreRefusedByName) {
  const char* uri = std::getenv("HDFS_URI");
  const char* mode = std::getenv("HDFS_MODE");
  if (uri == nullptr || mode == nullptr || std::string(mode) != "jvm") GTEST_SKIP() << "needs scripts/testbed up hdfs";
  const auto bed = [](const std::string& command) {
    return std::system(fmt::format("{}/scripts/testbed hdfs {} >/dev/null 2>&1", PACELINE_SOURCE_DIR, command).c_str());
  };
  ASSERT_EQ(bed("do encrypt key-of-test /zone"), 0);
  ASSERT_EQ(bed("dfs -put -f /etc/hostname /zone/theirs"), 0);
  RealClock clock;
  FileSystemOptions options;
  options.config = *LoadHadoopConfig("");
  Result<std::unique_ptr<FileSystem>> fs = OpenFileSystem(*ParseLocation(uri), options, clock);
  ASSERT_TRUE(fs.ok());
  const Deadline soon = Deadline::After(clock, std::chrono::seconds(30));
  const Status open = (*fs)->Open("/zone/theirs", soon).status();
  EXPECT_EQ(ErrnoOf(open), EOPNOTSUPP);
  EXPECT_THAT(open.message(), testing::HasSubstr("encryption zone"));
  const Status create = (*fs)->Create("/zone/ours", {}, soon).status();
  EXPECT_EQ(ErrnoOf(create), EOPNOTSUPP) << create.ToString();
  EXPECT_EQ(ErrnoOf((*fs)->Append("/zone/theirs", soon).status()), EOPNOTSUPP);
  const Result<std::vector<FileStatus>> left = ListAll(**fs, "/zone", soon);
  ASSERT_TRUE(left.ok());
  EXPECT_EQ(left->size(), 1u) << "nothing of ours stays";
  (*fs)->Remove("/zone", RemoveMode::kRecursive, soon).IgnoreError();
}

}  // namespace
}  // namespace paceline::hdfs
