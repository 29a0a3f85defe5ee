// Writer and reader are processes that end without warning.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>

#include "lib/ring/reader.h"
#include "lib/ring/writer.h"
#include "tests/ring/ring_folder.h"

namespace paceline::ring {
namespace {

pid_t StartProcess(const std::function<void()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(0);
  }
  return pid;
}

void KillAndWait(pid_t pid) {
  ::kill(pid, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
}

// Says through a pipe that something has happened; reading waits for it without a clock.
struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends), 0); }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void Say() const { EXPECT_EQ(::write(ends[1], "x", 1), 1); }
  void Await() const {
    char byte;
    EXPECT_EQ(::read(ends[0], &byte, 1), 1);
  }
  int ends[2];
};

// Records and one proxy operation, without end.
void WriteForever(const RingOptions& options, const Pipe& ready) {
  Ring ring{};
  RingWriter writer{};
  if (RingCreate(&ring, &options) != 0) ::_exit(1);
  if (RingClaimWriter(&ring, static_cast<uint32_t>(::gettid()), &writer) != 0) ::_exit(2);
  ring.header->proxies_used = 1;
  RingProxy* proxy = &ring.proxies[0];
  for (uint32_t i = 0;; i++) {
    uint32_t body[29];
    for (uint32_t& word : body) word = i;
    RingPush(&writer, RING_RECORD_PROXY, body);
    const uint32_t odd = RingBeginWrite(&proxy->version);
    RING_STORE(proxy->state, static_cast<uint32_t>(RING_OPEN));
    RING_STORE(proxy->started, i);
    RING_STORE(proxy->done, i);
    RingEndWrite(&proxy->version, odd);
    if (i == 1000) ready.Say();
  }
}

// What is in the ring fits together; returns how many records there were.
size_t Check(RingReader& reader) {
  std::string error;
  Tables tables;
  EXPECT_TRUE(reader.ReadTables(tables, error)) << error;
  for (const auto& entry : tables.proxies) {
    if (entry.is_torn) continue;
    EXPECT_EQ(entry.value.started, entry.value.done);
  }
  Records records;
  EXPECT_TRUE(reader.ReadRecords(1000, records, error)) << error;
  EXPECT_EQ(records.damaged, 0u);
  for (const RingRecord& record : records.records) {
    uint32_t body[29];
    std::memcpy(body, record.body, sizeof body);
    for (const uint32_t word : body) EXPECT_EQ(word, record.sequence - 1);
  }
  return records.records.size();
}

TEST(RingProcess, KilledWriterLeavesAReadableRing) {
  for (int round = 0; round < 10; round++) {
    RingFolder folder;
    Pipe ready;
    const RingOptions options = folder.SmallOptions();
    const pid_t writer = StartProcess([&] { WriteForever(options, ready); });
    ready.Await();
    std::string error;
    auto reader = RingReader::Open(folder.OnlyRing(), error);
    ASSERT_NE(reader, nullptr) << error;
    EXPECT_EQ(reader->WriterPid(), writer);
    for (int look = 0; look < 50; look++) Check(*reader);
    KillAndWait(writer);
    EXPECT_EQ(reader->WriterPid(), 0);
    Check(*reader);
    EXPECT_EQ(Check(*reader), 0u);
  }
}

TEST(RingProcess, KilledReadersDoNotDisturbTheWriter) {
  RingFolder folder;
  Pipe ready;
  const RingOptions options = folder.SmallOptions();
  const pid_t writer = StartProcess([&] { WriteForever(options, ready); });
  ready.Await();
  const std::string path = folder.OnlyRing();
  for (int round = 0; round < 5; round++) {
    Pipe reading;
    const pid_t reader = StartProcess([&] {
      std::string error;
      auto ring = RingReader::Open(path, error);
      for (int look = 0;; look++) {
        Check(*ring);
        ring->RequestMask(static_cast<uint32_t>(look));
        if (look == 3) reading.Say();
      }
    });
    reading.Await();
    KillAndWait(reader);
  }
  std::string error;
  auto reader = RingReader::Open(path, error);
  ASSERT_NE(reader, nullptr) << error;
  size_t seen = 0;
  while (seen < 1000) seen += Check(*reader);  // goes on
  EXPECT_EQ(reader->WriterPid(), writer);
  KillAndWait(writer);
}

TEST(RingProcess, ForkedChildOfAWriterIsNotTheWriter) {
  RingFolder folder;
  Pipe ready, child_may_end;
  const RingOptions options = folder.SmallOptions();
  const pid_t writer = StartProcess([&] {
    Ring ring{};
    if (RingCreate(&ring, &options) != 0) ::_exit(1);
    if (::fork() == 0) {
      ready.Say();
      child_may_end.Await();
      ::_exit(0);
    }
    ::pause();
  });
  ready.Await();
  std::string error;
  auto reader = RingReader::Open(folder.OnlyRing(), error);
  ASSERT_NE(reader, nullptr) << error;
  EXPECT_EQ(reader->WriterPid(), writer);
  KillAndWait(writer);
  EXPECT_EQ(reader->WriterPid(), 0);  // though its child still holds the mapping
  child_may_end.Say();
}

}  // namespace
}  // namespace paceline::ring
