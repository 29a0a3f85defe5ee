// Files that are foreign, cut short, or full of lies: the reader says no, or gives bounded nonsense, and stays alive.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <random>

#include "lib/ring/reader.h"
#include "lib/ring/writer.h"
#include "tests/ring/ring_folder.h"

namespace paceline::ring {
namespace {

class RingDamage : public testing::Test {
 protected:
  void SetUp() override {
    const RingOptions options = folder_.SmallOptions();
    Ring ring{};
    ASSERT_EQ(RingCreate(&ring, &options), 0);
    RingWriter writer{};
    ASSERT_EQ(RingClaimWriter(&ring, static_cast<uint32_t>(::gettid()), &writer), 0);
    const char body[116] = {};
    for (int i = 0; i < 100; i++) RingPush(&writer, RING_RECORD_CALL, body);
    RingAddName(&ring, "AllReduce");
    for (uint32_t i = 0; i < options.proxies; i++) ring.proxies[i].state = RING_OPEN;
    for (uint32_t i = 0; i < options.calls; i++) ring.calls[i].state = RING_STOPPED;
    ring.header->proxies_used = options.proxies;
    ring.header->calls_used = options.calls;
    RingClose(&ring);
    path_ = folder_.OnlyRing();
    std::ifstream file(path_, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }

  void Write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes; }

  // Everything a reader can be asked. True when the file was taken for a ring.
  bool ReadAll() const {
    std::string error;
    auto reader = RingReader::Open(path_, error);
    if (reader == nullptr) {
      EXPECT_NE(error, "");
      return false;
    }
    Tables tables;
    if (reader->ReadTables(tables, error)) {
      EXPECT_LE(tables.proxies.size(), size_t{RING_MAX_ENTRIES});
      for (const auto& entry : tables.calls) {
        EXPECT_TRUE(entry.value.comm == RING_NONE || entry.value.comm < reader->header().comms_capacity);
        reader->Name(entry.value.func);
      }
      EXPECT_LT(::strnlen(tables.header.run, sizeof tables.header.run), sizeof tables.header.run);
    }
    for (int i = 0; i < 3; i++) {
      Records records;
      if (!reader->ReadRecords(500, records, error)) continue;
      EXPECT_LE(records.records.size(), 500u);
    }
    for (uint16_t i = 0; i < 20; i++) EXPECT_LT(reader->Name(i).size(), 61u);
    return true;
  }

  RingFolder folder_;
  std::string path_, bytes_;
};

TEST_F(RingDamage, WholeFileIsRead) { EXPECT_TRUE(ReadAll()); }

TEST_F(RingDamage, TruncatedFilesAreRefused) {
  for (size_t length = 0; length < bytes_.size(); length += length < 5000 ? 97 : 1999) {
    Write(bytes_.substr(0, length));
    EXPECT_FALSE(ReadAll()) << length;
  }
}

TEST_F(RingDamage, FileCutShortWhileOpenIsAnError) {
  std::string error;
  auto reader = RingReader::Open(path_, error);
  ASSERT_NE(reader, nullptr) << error;
  ASSERT_EQ(::truncate(path_.c_str(), 6000), 0);
  Tables tables;
  Records records;
  EXPECT_FALSE(reader->ReadTables(tables, error));
  EXPECT_FALSE(reader->ReadRecords(10, records, error));
  EXPECT_EQ(reader->Name(1), "AllReduce");  // still within what is left
  ASSERT_EQ(::truncate(path_.c_str(), 0), 0);
  EXPECT_FALSE(reader->ReadTables(tables, error));
  EXPECT_EQ(reader->Name(2), "");
}

TEST_F(RingDamage, OtherKindsOfFilesAreRefusedWithoutWaiting) {
  std::string error;
  EXPECT_EQ(RingReader::Open(folder_.path(), error), nullptr);
  EXPECT_EQ(RingReader::Open(folder_.path() + "/none", error), nullptr);
  const std::string fifo = folder_.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(RingReader::Open(fifo, error), nullptr);
  const std::string link = folder_.path() + "/link";
  ASSERT_EQ(::symlink(path_.c_str(), link.c_str()), 0);
  EXPECT_EQ(RingReader::Open(link, error), nullptr);
  EXPECT_EQ(RingReader::Open("/dev/zero", error), nullptr);
}

TEST_F(RingDamage, HeaderFieldsAreChecked) {
  struct Case {
    const char* name;
    size_t offset;
    uint32_t value;
  };
  const Case cases[] = {{"magic", 0, 1},
                        {"version", 8, 2},
                        {"header bytes", 12, 0},
                        {"file bytes", 20, 0xffff},
                        {"names offset", 24, 0},
                        {"comms offset", 36, 0xffffffff},
                        {"records offset", 64, 4096},
                        {"names capacity", 72, 0},
                        {"proxies capacity", 84, 0xffffffff},
                        {"writers capacity", 88, 60000},
                        {"records per writer", 92, 63},
                        {"records beyond the end", 92, 1048576},
                        {"proxy bytes", 108, 128},
                        {"clock", 124, 9}};
  for (const Case& wrong : cases) {
    std::string bytes = bytes_;
    bytes.replace(wrong.offset, 4, reinterpret_cast<const char*>(&wrong.value), 4);
    Write(bytes);
    EXPECT_FALSE(ReadAll()) << wrong.name;
  }
}

TEST_F(RingDamage, FlippedBytesNeverHurt) {
  std::mt19937_64 random(7);
  int taken = 0;
  for (int round = 0; round < 400; round++) {
    std::string bytes = bytes_;
    const int flips = 1 + static_cast<int>(random() % 20);
    for (int i = 0; i < flips; i++) {
      // Half of them where structure is: header and writers.
      const size_t range = random() % 2 == 0 ? 1100 : bytes.size();
      bytes[random() % range] = static_cast<char>(random());
    }
    Write(bytes);
    taken += ReadAll() ? 1 : 0;
  }
  EXPECT_GT(taken, 0);
  for (int round = 0; round < 30; round++) {
    std::string bytes = bytes_;
    for (size_t i = 512; i < bytes.size(); i++) bytes[i] = static_cast<char>(random());
    Write(bytes);
    EXPECT_TRUE(ReadAll());
  }
}

}  // namespace
}  // namespace paceline::ring
