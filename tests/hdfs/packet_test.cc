// The DataTransfer captures, taken apart and put together again byte for byte.
#include "lib/hdfs/packet.h"

#include <gtest/gtest.h>

#include "lib/hdfs/checksum.h"
#include "lib/hdfs/wire_bytes.h"
#include "tests/hdfs/wire_capture.h"

namespace paceline::hdfs {
namespace {

template <typename Message>
void CheckOperation(const std::string& bytes, uint8_t operation) {
  ASSERT_GE(bytes.size(), 3u);
  EXPECT_EQ(static_cast<uint8_t>(bytes[2]), operation);
  Message message;
  DelimitedReader reader(std::string_view(bytes).substr(3));
  ASSERT_TRUE(reader.Next("operation", &message).ok());
  EXPECT_TRUE(reader.rest().empty());
  EXPECT_EQ(EncodeOperation(operation, message), bytes);
}

template <typename Message>
void CheckDelimited(const std::string& bytes) {
  Message message;
  DelimitedReader reader(bytes);
  ASSERT_TRUE(reader.Next("message", &message).ok());
  std::string again;
  AppendDelimited(message, &again);
  EXPECT_EQ(again + std::string(reader.rest()), bytes);
}

void CheckPacket(const CapturePart& part) {
  const std::string_view bytes = part.bytes;
  const Result<PacketSizes> sizes = ParsePacketSizes(bytes.substr(0, 6));
  ASSERT_TRUE(sizes.ok()) << sizes.status().ToString();
  const Result<PacketHead> head = ParsePacketHead(bytes.substr(6, sizes->header_bytes));
  ASSERT_TRUE(head.ok()) << head.status().ToString();
  const size_t sums_bytes = ChecksumBytes(ChecksumType::kCrc32c, 512, head->data_bytes);
  EXPECT_EQ(sizes->payload_bytes, sums_bytes + head->data_bytes);
  const std::string_view sums = bytes.substr(6 + sizes->header_bytes, sums_bytes);
  const std::string start = EncodePacketStart(*head, sums);
  EXPECT_EQ(start, bytes.substr(0, start.size()));
  if (!part.is_whole) return;
  const std::string_view data = bytes.substr(start.size());
  ASSERT_EQ(data.size(), head->data_bytes);
  EXPECT_EQ(FirstBadChunk(ChecksumType::kCrc32c, 512, data, sums), std::nullopt);
  std::string computed;
  AppendChecksums(ChecksumType::kCrc32c, 512, data, &computed);
  EXPECT_EQ(computed, sums);
}

TEST(Packet, EveryCapturedTransferIsMadeAgain) {
  int operations = 0, packets = 0, acks = 0;
  for (const std::string& name : CaptureNames("dt-Op")) {
    if (name.rfind("dt-OpBlockChecksum", 0) == 0) continue;  // an operation that we never ask for
    for (const CapturePart& part : LoadCapture(name)) {
      SCOPED_TRACE(name + ": " + part.title);
      if (part.title.rfind("request", 0) == 0) {
        ++operations;
        if (name.rfind("dt-OpReadBlock", 0) == 0) {
          CheckOperation<wire::OpReadBlock>(part.bytes, kOpReadBlock);
        } else {
          CheckOperation<wire::OpWriteBlock>(part.bytes, kOpWriteBlock);
        }
      } else if (part.title.rfind("response", 0) == 0) {
        CheckDelimited<wire::BlockOpResponse>(part.bytes);
      } else if (part.title.rfind("packet", 0) == 0) {
        ++packets;
        CheckPacket(part);
      } else if (part.title.rfind("ack", 0) == 0) {
        ++acks;
        CheckDelimited<wire::PipelineAck>(part.bytes);
        wire::PipelineAck ack;
        ASSERT_TRUE(DelimitedReader(part.bytes).Next("ack", &ack).ok());
        EXPECT_EQ(FirstFailedNode(ack), -1);
      } else if (part.title.find("status") != std::string::npos) {
        EXPECT_EQ(part.bytes, std::string("\x02\x08\x06"));
      }
    }
  }
  EXPECT_GE(operations, 10);
  EXPECT_GE(packets, 25);
  EXPECT_EQ(acks, 19);
}

TEST(Packet, HasTheKnownForms) {
  EXPECT_EQ(
      EncodePacketStart({.offset = 128 << 20, .seqno = 2081, .is_last = true}, ""),
      std::string(
          "\x00\x00\x00\x04\x00\x19\x09\x00\x00\x00\x08\x00\x00\x00\x00\x11\x21\x08\x00\x00\x00\x00\x00\x00\x18\x01"
          "\x25\x00\x00\x00\x00",
          31));
  const std::string heartbeat = EncodePacketStart({.seqno = kHeartbeatSeqno}, "");
  EXPECT_EQ(heartbeat.substr(15, 9), std::string("\x11\xff\xff\xff\xff\xff\xff\xff\xff", 9));
  EXPECT_EQ(EncodePacketStart({.is_sync = true}, "").size(), 6u + 27u);
}

TEST(Packet, SurvivesCutAndFlippedBytes) {
  const std::string start = EncodePacketStart({.offset = 512, .seqno = 3, .data_bytes = 1000}, std::string(8, 's'));
  for (size_t i = 0; i < start.size(); ++i) {
    std::string flipped = start;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
    const Result<PacketSizes> sizes = ParsePacketSizes(std::string_view(flipped).substr(0, 6));
    if (!sizes.ok()) continue;
    EXPECT_LE(sizes->payload_bytes, kMaxPacketBytes);
    ParsePacketHead(std::string_view(flipped).substr(6, sizes->header_bytes)).status().IgnoreError();
  }
  const std::string header = start.substr(6, 25);
  for (size_t i = 0; i < header.size(); ++i) EXPECT_FALSE(ParsePacketHead(header.substr(0, i)).ok()) << i;
  for (const char* bad : {"\x00\x00\x00\x03\x00\x19", "\xff\xff\xff\xff\x00\x19", "\x00\x00\x00\x04\x00\x00",
                          "\x00\x00\x00\x04\xff\xff"}) {
    EXPECT_FALSE(ParsePacketSizes({bad, 6}).ok());
  }
}

TEST(FirstFailedNode, FollowsItsTable) {
  const struct {
    std::vector<uint32_t> replies, flags;
    int want;
  } cases[] = {
      {{0, 0, 0}, {}, -1},        {{0, 1, 0}, {}, 1}, {{0, 0, 2}, {}, 2}, {{0, 0}, {0x40, 0x41}, 1},
      {{0, 0}, {0x40, 0x40}, -1}, {{8}, {}, -2},      {{}, {}, -1},
  };
  for (const auto& c : cases) {
    wire::PipelineAck ack;
    for (const uint32_t reply : c.replies) ack.add_reply(reply);
    for (const uint32_t flag : c.flags) ack.add_flag(flag);
    EXPECT_EQ(FirstFailedNode(ack), c.want);
  }
}

TEST(Checksum, GivesTheKnownValues) {
  EXPECT_EQ(Crc(ChecksumType::kCrc32c, "123456789"), 0xe3069283u);
  EXPECT_EQ(Crc(ChecksumType::kCrc32, "123456789"), 0xcbf43926u);
  EXPECT_EQ(Crc(ChecksumType::kCrc32c, std::string(512, '\0')), 0x30fcedc0u);
  EXPECT_EQ(Crc(ChecksumType::kCrc32, std::string(512, '\0')), 0xb2aa7578u);
}

TEST(Checksum, FindsTheChunkThatIsWrong) {
  std::string data;
  for (int i = 0; i < 1300; ++i) data.push_back(static_cast<char>(i * 7));
  for (const ChecksumType type : {ChecksumType::kCrc32, ChecksumType::kCrc32c}) {
    std::string sums;
    AppendChecksums(type, 512, data, &sums);
    EXPECT_EQ(sums.size(), 12u);
    EXPECT_EQ(FirstBadChunk(type, 512, data, sums), std::nullopt);
    for (const size_t at : {0, 511, 512, 1299}) {
      std::string bad = data;
      bad[at] = static_cast<char>(bad[at] ^ 0x10);
      EXPECT_EQ(FirstBadChunk(type, 512, bad, sums), at / 512 * 512);
    }
  }
}

}  // namespace
}  // namespace paceline::hdfs
