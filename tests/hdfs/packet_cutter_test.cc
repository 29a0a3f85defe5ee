#include "lib/hdfs/packet_cutter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/hdfs/checksum.h"

namespace paceline::hdfs {
namespace {

using testing::ElementsAre;
using Extent = std::pair<uint64_t, size_t>;

std::string Bytes(size_t from, size_t size) {
  std::string bytes;
  for (size_t i = from; i < from + size; ++i) bytes.push_back(static_cast<char>(i * 31 + i / 256));
  return bytes;
}

// What was cut, after checking that each packet carries the bytes of its place with their checksums.
class Cutting {
 public:
  Cutting(uint64_t start, size_t packet_bytes) : start_(start), cutter_({.packet_bytes = packet_bytes}, start) {}

  Cutting& Write(size_t size) {
    const std::string bytes = Bytes(cutter_.position(), size);
    std::string_view rest = bytes;
    while (!rest.empty()) Take(cutter_.Add(&rest));
    return *this;
  }
  Cutting& Flush() {
    Take(cutter_.Flush());
    return *this;
  }
  const std::vector<Extent>& packets() const { return packets_; }
  uint64_t position() const { return cutter_.position(); }

 private:
  void Take(const std::optional<OutgoingPacket>& packet) {
    if (!packet.has_value()) return;
    packets_.emplace_back(packet->offset, packet->data.size());
    EXPECT_EQ(packet->data, Bytes(packet->offset, packet->data.size()));
    EXPECT_EQ(FirstBadChunk(ChecksumType::kCrc32c, 512, packet->data, packet->checksums), std::nullopt);
    // The rule of the DataNode: a packet in the middle of a chunk may not reach into the next one.
    if (packet->offset % 512 != 0) EXPECT_LE(packet->offset % 512 + packet->data.size(), 512u);
    EXPECT_GE(packet->offset, start_);
  }

  const uint64_t start_;
  PacketCutter cutter_;
  std::vector<Extent> packets_;
};

TEST(PacketCutter, CutsWholePackets) {
  EXPECT_THAT(Cutting(0, 2048).Write(5000).Flush().packets(),
              ElementsAre(Extent{0, 2048}, Extent{2048, 2048}, Extent{4096, 904}));
  EXPECT_THAT(Cutting(0, 2048).Write(2048).Flush().packets(), ElementsAre(Extent{0, 2048}));
  EXPECT_THAT(Cutting(0, 2048).Flush().packets(), ElementsAre());
}

TEST(PacketCutter, SendsAPartialChunkAgainFromItsStart) {
  Cutting cutting(0, 2048);
  cutting.Write(700).Flush().Write(300).Flush().Flush().Write(3000).Flush();
  EXPECT_THAT(cutting.packets(), ElementsAre(Extent{0, 700}, Extent{512, 488}, Extent{512, 2048}, Extent{2560, 1440}));
  EXPECT_EQ(cutting.position(), 4000u);
}

TEST(PacketCutter, FillsTheChunkOfAnAppendFirst) {
  Cutting cutting(1000, 2048);
  cutting.Write(100).Flush();
  EXPECT_THAT(cutting.packets(), ElementsAre(Extent{1000, 24}, Extent{1024, 76}));
}

TEST(PacketCutter, NeverGoesBackBehindAnAppend) {
  Cutting cutting(1000, 2048);
  cutting.Write(10).Flush().Write(5).Flush().Write(2000).Flush();
  EXPECT_THAT(cutting.packets(), ElementsAre(Extent{1000, 10}, Extent{1000, 15}, Extent{1000, 24}, Extent{1024, 1991}));
}

}  // namespace
}  // namespace paceline::hdfs
