#include "lib/hdfs/packet.h"

#include <fmt/format.h>

#include "lib/hdfs/wire_bytes.h"

namespace paceline::hdfs {
namespace {

constexpr uint16_t kVersion = 28;
constexpr size_t kMaxHeaderBytes = 64;  // 33 with every field that there is

}  // namespace

std::string EncodePacketStart(const PacketHead& head, std::string_view checksums) {
  wire::PacketHeader header;
  header.set_offset_in_block(static_cast<int64_t>(head.offset));
  header.set_seqno(head.seqno);
  header.set_last_packet_in_block(head.is_last);
  header.set_data_length(static_cast<int32_t>(head.data_bytes));
  if (head.is_sync) header.set_sync_block(true);
  std::string out;
  out.reserve(6 + 27 + checksums.size());
  AppendBigEndian(4 + checksums.size() + head.data_bytes, 4, &out);
  AppendBigEndian(header.ByteSizeLong(), 2, &out);
  header.AppendToString(&out);
  return out.append(checksums);
}

Result<PacketSizes> ParsePacketSizes(std::string_view six_bytes) {
  const uint32_t payload = LoadBigEndian32(six_bytes.data());
  const uint16_t header = LoadBigEndian16(six_bytes.data() + 4);
  if (payload < 4 || payload > kMaxPacketBytes || header == 0 || header > kMaxHeaderBytes) {
    return DataLossError(fmt::format("a packet of {} bytes with a header of {}", payload, header));
  }
  return PacketSizes{.header_bytes = header, .payload_bytes = payload - 4};
}

Result<PacketHead> ParsePacketHead(std::string_view header) {
  wire::PacketHeader parsed;
  if (!ParseMessage(header, &parsed) || parsed.data_length() < 0 || parsed.offset_in_block() < 0) {
    return DataLossError("the header of a packet is malformed");
  }
  return PacketHead{.offset = static_cast<uint64_t>(parsed.offset_in_block()),
                    .seqno = parsed.seqno(),
                    .is_last = parsed.last_packet_in_block(),
                    .data_bytes = static_cast<uint32_t>(parsed.data_length()),
                    .is_sync = parsed.sync_block()};
}

std::string EncodeOperation(uint8_t operation, const google::protobuf::MessageLite& message) {
  std::string out;
  AppendBigEndian(kVersion, 2, &out);
  out.push_back(static_cast<char>(operation));
  AppendDelimited(message, &out);
  return out;
}

int FirstFailedNode(const wire::PipelineAck& ack) {
  for (int i = 0; i < ack.reply_size(); ++i) {
    // The flag's low bits repeat the status and are newer; the reply is what old servers send.
    const uint32_t status = i < ack.flag_size() ? ack.flag(i) & 0xf : ack.reply(i);
    if (status == kDtRestarting) return -2;
    if (status != kDtSuccess) return i;
  }
  return -1;
}

}  // namespace paceline::hdfs
