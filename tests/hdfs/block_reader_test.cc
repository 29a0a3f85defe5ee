// ReadBlockRange against a DataNode of the test on loopback that serves one block, truly or with a fault.
#include "lib/hdfs/block_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "lib/hdfs/checksum.h"
#include "lib/hdfs/packet.h"
#include "lib/hdfs/wire_bytes.h"
#include "tests/fakes/scripted_peer.h"

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;

constexpr size_t kBlockBytes = 100'000;
constexpr size_t kPacketBytes = 8192;

std::string BlockBytes() {
  std::string bytes;
  for (size_t i = 0; i < kBlockBytes; ++i) bytes.push_back(static_cast<char>(i * 131 + i / 512));
  return bytes;
}

// What a DataNode answers to a read: set-up, packets, end.
std::string Answer(uint64_t offset, uint64_t length, ChecksumType type) {
  const std::string block = BlockBytes();
  const uint64_t start = offset / 512 * 512, end = std::min<uint64_t>((offset + length + 511) / 512 * 512, kBlockBytes);
  wire::BlockOpResponse response;
  response.set_status(kDtSuccess);
  response.mutable_read_checksum()->mutable_checksum()->set_type(static_cast<uint32_t>(type));
  response.mutable_read_checksum()->mutable_checksum()->set_bytes_per_checksum(512);
  response.mutable_read_checksum()->set_chunk_offset(start);
  std::string out;
  AppendDelimited(response, &out);
  int64_t seqno = 0;
  for (uint64_t at = start; at < end;) {
    const std::string data = block.substr(at, std::min<uint64_t>(kPacketBytes, end - at));
    std::string sums;
    AppendChecksums(type, 512, data, &sums);
    out += EncodePacketStart({.offset = at, .seqno = seqno++, .data_bytes = static_cast<uint32_t>(data.size())}, sums) +
           data;
    at += data.size();
  }
  return out + EncodePacketStart({.offset = end, .seqno = seqno, .is_last = true}, "");
}

class OneBlockServer {
 public:
  // `change` gets the true answer to each request; an empty one is never sent, and the connection stays open.
  explicit OneBlockServer(std::function<std::string(int request, std::string answer)> change)
      : change_(std::move(change)), peer_([this](fakes::ScriptedPeer::Link& link) { Serve(link); }) {
    node_.ip = "127.0.0.1";
    node_.transfer_port = peer_.port();
  }
  const DataNode& node() const { return node_; }
  int connections() const { return peer_.connections(); }
  int farewells() const { return farewells_; }

  std::atomic<ChecksumType> type = ChecksumType::kCrc32c;
  std::atomic<bool> closes_after{false};

 private:
  void Serve(fakes::ScriptedPeer::Link& link) {
    std::string inbox;
    for (std::string more; !(more = link.ReadSome()).empty();) {
      inbox += more;
      if (inbox.rfind("\x02\x08\x06", 0) == 0) {
        ++farewells_;
        inbox.erase(0, 3);
      }
      wire::OpReadBlock request;
      if (inbox.size() < 4 || !DelimitedReader(std::string_view(inbox).substr(3)).Next("op", &request).ok()) continue;
      inbox.clear();
      const std::string answer = change_(requests_++, Answer(request.offset(), request.length(), type));
      if (!link.Write(answer) || closes_after) return;
    }
  }

  const std::function<std::string(int, std::string)> change_;
  DataNode node_;
  std::atomic<int> requests_{0}, farewells_{0};
  fakes::ScriptedPeer peer_;
};

class BlockReader : public testing::Test {
 protected:
  Status Read(const DataNode& node, uint64_t offset, std::string* out, Duration limit = 10s) {
    LocatedBlock block;
    block.block = {"BP-1", 1, 1, kBlockBytes};
    ReadControl control;
    return ReadBlockRange(client_, node, block, offset, std::as_writable_bytes(std::span(*out)), control,
                          Deadline::After(clock_, limit));
  }
  RealClock clock_;
  DataNodeClient client_{{.client_name = "test", .silence_limit = 5s}, clock_};
};

std::string True(int, std::string answer) { return answer; }

TEST_F(BlockReader, GivesTheBytesOfEveryRangeOverOneConnection) {
  OneBlockServer server(True);
  const std::string block = BlockBytes();
  const std::pair<uint64_t, size_t> ranges[] = {{0, kBlockBytes}, {0, 1},       {511, 2},   {512, 512},
                                                {700, 100},       {8191, 8194}, {99'999, 1}};
  for (const auto& [offset, size] : ranges) {
    std::string out(size, '?');
    const Status status = Read(server.node(), offset, &out);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(out, block.substr(offset, size)) << offset;
  }
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(BlockReader, ReadsOldChecksumsToo) {
  OneBlockServer server(True);
  server.type = ChecksumType::kCrc32;
  std::string out(5000, '?');
  ASSERT_TRUE(Read(server.node(), 300, &out).ok());
  EXPECT_EQ(out, BlockBytes().substr(300, 5000));
}

TEST_F(BlockReader, NoticesEachFlippedByteOfTheData) {
  // Two packets, so that a wrong byte may lie in one that is read into the caller's buffer and in one that is not.
  const std::string right = Answer(100, 9000, ChecksumType::kCrc32c);
  const std::string want = BlockBytes().substr(100, 9000);
  size_t at = 0;
  OneBlockServer server([&](int, std::string answer) {
    answer[at] = static_cast<char>(answer[at] ^ 0x20);
    return answer;
  });
  server.closes_after = true;  // a length that was made larger ends in a cut, not in a wait
  int data_losses = 0;
  for (at = 30; at < right.size() - 31; at += 613) {
    std::string out(9000, '?');
    const Status status = Read(server.node(), 100, &out, 2s);
    EXPECT_FALSE(status.ok()) << at;
    data_losses += status.code() == StatusCode::kDataLoss ? 1 : 0;
  }
  EXPECT_GT(data_losses, 10);
}

TEST_F(BlockReader, SurvivesFlippedBitsAnywhere) {
  const std::string right = Answer(0, 600, ChecksumType::kCrc32c);
  size_t at = 0;
  OneBlockServer server([&](int, std::string answer) {
    answer[at] = static_cast<char>(answer[at] ^ (1 << (at % 8)));
    return answer;
  });
  server.closes_after = true;
  for (at = 0; at < right.size(); ++at) {
    std::string out(600, '?');
    const Status status = Read(server.node(), 0, &out, 2s);
    // What still reads as an answer must hold the right bytes.
    if (status.ok()) {
      EXPECT_EQ(out, BlockBytes().substr(0, 600)) << at;
    }
  }
}

TEST_F(BlockReader, SaysWhenTheAnswerIsCut) {
  size_t keep = 0;
  OneBlockServer server([&](int, const std::string& answer) { return answer.substr(0, keep); });
  server.closes_after = true;
  const size_t whole = Answer(0, 600, ChecksumType::kCrc32c).size();
  for (keep = 1; keep < whole; keep += 17) {
    std::string out(600, '?');
    EXPECT_EQ(Read(server.node(), 0, &out).code(), StatusCode::kUnavailable) << keep;
  }
}

TEST_F(BlockReader, TriesAnIdleConnectionThatDiedOnceMore) {
  OneBlockServer server(True);
  server.closes_after = true;
  for (int i = 0; i < 3; ++i) {
    std::string out(600, '?');
    const Status status = Read(server.node(), 0, &out);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST_F(BlockReader, EndsAtItsDeadlineAndWhenItIsCancelled) {
  OneBlockServer server([](int, const std::string&) { return std::string(); });
  std::string out(600, '?');
  EXPECT_EQ(Read(server.node(), 0, &out, 200ms).code(), StatusCode::kDeadlineExceeded);
  LocatedBlock block;
  block.block = {"BP-1", 1, 1, kBlockBytes};
  ReadControl control;
  Status status;
  {
    std::jthread reader([&] {
      status = ReadBlockRange(client_, server.node(), block, 0, std::as_writable_bytes(std::span(out)), control,
                              Deadline::After(clock_, 20s));
    });
    control.Cancel();
  }
  EXPECT_EQ(status.code(), StatusCode::kCancelled) << status.ToString();
}

TEST_F(BlockReader, TellsARefusalFromABrokenConnection) {
  wire::BlockOpResponse refusal;
  refusal.set_status(kDtError);
  refusal.set_message("Replica not found");
  std::string bytes;
  AppendDelimited(refusal, &bytes);
  refusal.set_status(kDtAccessTokenError);
  std::string token;
  AppendDelimited(refusal, &token);
  OneBlockServer server([&](int request, const std::string&) { return request == 0 ? bytes : token; });
  std::string out(600, '?');
  const Status refused = Read(server.node(), 0, &out);
  EXPECT_EQ(refused.code(), StatusCode::kAborted);
  EXPECT_THAT(refused.message(), testing::HasSubstr("Replica not found"));
  EXPECT_EQ(Read(server.node(), 0, &out).code(), StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace paceline::hdfs
