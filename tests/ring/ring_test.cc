#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "lib/ring/reader.h"
#include "lib/ring/writer.h"
#include "tests/ring/ended_thread.h"
#include "tests/ring/ring_folder.h"

namespace paceline::ring {
namespace {

// A body all of whose words tell which record it is.
struct Body {
  uint32_t words[29];
};
static_assert(sizeof(Body) == 116);

Body BodyOf(uint32_t index) {
  Body body;
  for (uint32_t i = 0; i < 29; i++) body.words[i] = index * 31 + i;
  return body;
}

bool IsWhole(const RingRecord& record) {
  const Body body = BodyOf(static_cast<uint32_t>(record.sequence - 1));
  return std::memcmp(record.body, &body, sizeof body) == 0;
}

class RingTest : public testing::Test {
 protected:
  void Create(const RingOptions& options) { ASSERT_EQ(RingCreate(&ring_, &options), 0); }
  std::unique_ptr<RingReader> Open() {
    auto reader = RingReader::Open(folder_.OnlyRing(), error_);
    EXPECT_NE(reader, nullptr) << error_;
    return reader;
  }

  RingFolder folder_;
  Ring ring_{};
  std::string error_;
};

TEST_F(RingTest, HeaderTellsWhoWrites) {
  RingOptions options = folder_.SmallOptions();
  options.run = "run-a";
  options.world_rank = 7;
  Create(options);
  auto reader = Open();
  const RingHeader& header = reader->header();
  EXPECT_EQ(header.pid, static_cast<uint32_t>(::getpid()));
  EXPECT_STREQ(header.run, "run-a");
  EXPECT_EQ(header.world_rank, 7);
  EXPECT_EQ(std::strlen(header.boot_id), 36u);
  EXPECT_GT(header.process_start, 0u);
  EXPECT_GT(header.epoch_time, 0u);
  EXPECT_EQ(header.salt, ring_.salt);
  RingClose(&ring_);
}

TEST_F(RingTest, FileHasAllItsBlocks) {
  Create(folder_.SmallOptions());
  struct stat status {};
  ASSERT_EQ(::stat(folder_.OnlyRing().c_str(), &status), 0);
  EXPECT_EQ(static_cast<uint64_t>(status.st_size), ring_.mapped_bytes);
  EXPECT_GE(static_cast<uint64_t>(status.st_blocks) * 512, ring_.mapped_bytes);
  RingClose(&ring_);
}

TEST_F(RingTest, RefusesWhatCannotBeLaidOut) {
  RingOptions options = folder_.SmallOptions();
  options.records_per_writer = 63;
  EXPECT_EQ(RingCreate(&ring_, &options), EINVAL);
  options = folder_.SmallOptions();
  options.calls = 0;
  EXPECT_EQ(RingCreate(&ring_, &options), EINVAL);
  options = folder_.SmallOptions();
  options.proxies = RING_MAX_ENTRIES + 1;
  EXPECT_EQ(RingCreate(&ring_, &options), EINVAL);
  options = folder_.SmallOptions();
  options.folder = "/nonexistent";
  EXPECT_EQ(RingCreate(&ring_, &options), ENOENT);
  EXPECT_EQ(folder_.OnlyRing(), "");
}

TEST_F(RingTest, TablesShowWhatIsInUse) {
  Create(folder_.SmallOptions());
  RingProxy* proxy = &ring_.proxies[2];
  const uint32_t odd = RingBeginWrite(&proxy->version);
  proxy->generation = 5;
  proxy->state = RING_OPEN;
  proxy->comm = 99;  // beyond the table
  proxy->steps = 12;
  RingEndWrite(&proxy->version, odd);
  ring_.header->proxies_used = 3;
  auto reader = Open();
  Tables tables;
  ASSERT_TRUE(reader->ReadTables(tables, error_)) << error_;
  EXPECT_THAT(tables.comms, testing::IsEmpty());
  ASSERT_EQ(tables.proxies.size(), 1u);
  EXPECT_EQ(tables.proxies[0].index, 2u);
  EXPECT_FALSE(tables.proxies[0].is_torn);
  EXPECT_EQ(tables.proxies[0].value.steps, 12u);
  EXPECT_EQ(tables.proxies[0].value.comm, RING_NONE);

  RingBeginWrite(&proxy->version);  // and the writer is killed here
  ASSERT_TRUE(reader->ReadTables(tables, error_));
  ASSERT_EQ(tables.proxies.size(), 1u);
  EXPECT_TRUE(tables.proxies[0].is_torn);
  RingClose(&ring_);
}

TEST_F(RingTest, EntryThatChangesAllTheTimeIsNeverMixed) {
  Create(folder_.SmallOptions());
  ring_.header->proxies_used = 1;
  auto reader = Open();
  std::jthread writer([this](std::stop_token stop) {
    RingProxy* proxy = &ring_.proxies[0];
    for (uint32_t i = 1; !stop.stop_requested(); i++) {
      const uint32_t odd = RingBeginWrite(&proxy->version);
      RING_STORE(proxy->state, static_cast<uint32_t>(RING_OPEN));
      RING_STORE(proxy->started, i);
      RING_STORE(proxy->done, i);
      RING_STORE(proxy->bytes, uint64_t{i});
      RING_STORE(proxy->step[7].time, uint64_t{i});
      RingEndWrite(&proxy->version, odd);
    }
  });
  int whole = 0;
  for (int look = 0; look < 20000 || whole == 0; look++) {
    Tables tables;
    ASSERT_TRUE(reader->ReadTables(tables, error_));
    for (const auto& entry : tables.proxies) {
      if (entry.is_torn) continue;
      whole++;
      const RingProxy& proxy = entry.value;
      ASSERT_EQ(proxy.started, proxy.done);
      ASSERT_EQ(proxy.bytes, proxy.done);
      ASSERT_EQ(proxy.step[7].time, proxy.done);
    }
  }
  writer.request_stop();
  writer.join();
  RingClose(&ring_);
}

TEST_F(RingTest, RecordsArriveInOrderAndOnce) {
  Create(folder_.SmallOptions());
  RingWriter writer{};
  ASSERT_EQ(RingClaimWriter(&ring_, static_cast<uint32_t>(::gettid()), &writer), 0);
  auto reader = Open();
  uint64_t next = 1;
  for (uint32_t i = 0; i < 1000; i++) {
    const Body body = BodyOf(i);
    RingPush(&writer, RING_RECORD_PROXY, &body);
    if (i % 40 != 39) continue;
    Records records;
    ASSERT_TRUE(reader->ReadRecords(1000, records, error_));
    EXPECT_EQ(records.lost + records.damaged, 0u);
    for (const RingRecord& record : records.records) {
      EXPECT_EQ(record.sequence, next++);
      EXPECT_EQ(record.type, static_cast<uint32_t>(RING_RECORD_PROXY));
      EXPECT_TRUE(IsWhole(record));
    }
  }
  EXPECT_EQ(next, 1001u);
  RingClose(&ring_);
}

TEST_F(RingTest, SlowReaderLosesTheOldestAndKnows) {
  Create(folder_.SmallOptions());
  RingWriter writer{};
  ASSERT_EQ(RingClaimWriter(&ring_, static_cast<uint32_t>(::gettid()), &writer), 0);
  auto reader = Open();
  for (uint32_t i = 0; i < 200; i++) {
    const Body body = BodyOf(i);
    RingPush(&writer, RING_RECORD_CALL, &body);
  }
  Records records;
  ASSERT_TRUE(reader->ReadRecords(10, records, error_));
  // 200 written, 64 kept, and the oldest of those is where the writer goes next.
  EXPECT_EQ(records.lost, 137u);
  ASSERT_EQ(records.records.size(), 9u);
  EXPECT_EQ(records.records[0].sequence, 138u);
  ASSERT_TRUE(reader->ReadRecords(1000, records, error_));
  EXPECT_EQ(records.lost, 0u);
  EXPECT_EQ(records.records.size(), 54u);
  EXPECT_EQ(records.records.back().sequence, 200u);
  RingClose(&ring_);
}

TEST_F(RingTest, OverwritingWhileReadingIsSeen) {
  Create(folder_.SmallOptions());
  RingWriter writer{};
  ASSERT_EQ(RingClaimWriter(&ring_, static_cast<uint32_t>(::gettid()), &writer), 0);
  auto reader = Open();
  std::jthread thread([&writer](std::stop_token stop) {
    for (uint32_t i = 0; !stop.stop_requested(); i++) {
      const Body body = BodyOf(i);
      RingPush(&writer, RING_RECORD_PROXY, &body);
    }
  });
  uint64_t seen = 0, lost = 0;
  for (int look = 0; look < 5000 || seen == 0; look++) {
    Records records;
    ASSERT_TRUE(reader->ReadRecords(1000, records, error_));
    ASSERT_EQ(records.damaged, 0u);
    seen += records.records.size();
    lost += records.lost;
    for (const RingRecord& record : records.records) ASSERT_TRUE(IsWhole(record)) << record.sequence;
  }
  EXPECT_GT(seen, 0u);
  thread.request_stop();
  thread.join();
  EXPECT_LE(seen + lost, writer.head);
  RingClose(&ring_);
}

TEST_F(RingTest, WriterOfAnEndedThreadIsGivenOn) {
  RingOptions options = folder_.SmallOptions();
  options.writers = 2;
  Create(options);
  RingWriter mine{}, other{}, none{};
  ASSERT_EQ(RingClaimWriter(&ring_, static_cast<uint32_t>(::gettid()), &mine), 0);
  OnThreadThatEnds([&] {
    ASSERT_EQ(RingClaimWriter(&ring_, static_cast<uint32_t>(::gettid()), &other), 0);
    EXPECT_NE(other.entry, mine.entry);
    OnThreadThatEnds([&] { EXPECT_EQ(RingClaimWriter(&ring_, static_cast<uint32_t>(::gettid()), &none), ENOSPC); });
    const Body body = BodyOf(0);
    RingPush(&other, RING_RECORD_CALL, &body);
  });
  OnThreadThatEnds([&] {
    RingWriter again{};
    ASSERT_EQ(RingClaimWriter(&ring_, static_cast<uint32_t>(::gettid()), &again), 0);
    EXPECT_EQ(again.entry, other.entry);
    EXPECT_EQ(again.head, 1u);
  });
  RingClose(&ring_);
}

TEST_F(RingTest, NamesAreReadAndTheTableMayFill) {
  Create(folder_.SmallOptions());
  const uint32_t index = RingAddName(&ring_, "AllReduce");
  auto reader = Open();
  EXPECT_EQ(reader->Name(static_cast<uint16_t>(index)), "AllReduce");
  EXPECT_EQ(reader->Name(0), "");
  EXPECT_EQ(reader->Name(9), "");
  EXPECT_EQ(reader->Name(60000), "");
  const std::string longer(200, 'x');
  const uint32_t second = RingAddName(&ring_, longer.c_str());
  EXPECT_EQ(reader->Name(static_cast<uint16_t>(second)), longer.substr(0, 59));
  for (int i = 0; i < 20; i++) RingAddName(&ring_, "more");
  EXPECT_EQ(RingAddName(&ring_, "more"), 0u);
  EXPECT_GT(ring_.header->drops[RING_DROP_NAME], 0u);
  RingClose(&ring_);
}

TEST_F(RingTest, MaskGoesFromReaderToWriter) {
  Create(folder_.SmallOptions());
  auto reader = Open();
  ASSERT_TRUE(reader->RequestMask(0x1e));
  EXPECT_EQ(ring_.header->mask_sequence, 1u);
  EXPECT_EQ(ring_.header->mask_wanted, 0x1eu);
  RingClose(&ring_);
}

}  // namespace
}  // namespace paceline::ring
