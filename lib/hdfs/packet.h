// The packets that carry a block's bytes, and the operations around them, as bytes. Internal to lib/hdfs. Pure
// functions; the layout is in docs/formats/hdfs-protocol.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/hdfs/block.h"
#include "lib/hdfs/proto/datatransfer.pb.h"

namespace paceline::hdfs {

inline constexpr uint8_t kOpWriteBlock = 80, kOpReadBlock = 81, kOpTransferBlock = 86;

// Status of a DataNode's answers.
inline constexpr uint32_t kDtSuccess = 0, kDtError = 1, kDtChecksumError = 2, kDtAccessTokenError = 5,
                          kDtChecksumOk = 6, kDtRestarting = 8, kDtInProgress = 12;

inline constexpr int64_t kHeartbeatSeqno = -1;
inline constexpr size_t kMaxPacketBytes = 16 << 20;
inline constexpr size_t kMaxAnswerBytes = 1 << 20;  // of a DataNode, to an operation

struct PacketHead {
  uint64_t offset = 0;  // in the block
  int64_t seqno = 0;
  bool is_last = false;
  uint32_t data_bytes = 0;
  bool is_sync = false;
  friend bool operator==(const PacketHead&, const PacketHead&) = default;
};

// Everything of a packet in front of its data.
std::string EncodePacketStart(const PacketHead& head, std::string_view checksums);

// The six bytes that begin a packet: how long its header is, and how many bytes of checksums and data follow that.
struct PacketSizes {
  size_t header_bytes = 0, payload_bytes = 0;
};
// kDataLoss when no packet can be so large, or so small.
Result<PacketSizes> ParsePacketSizes(std::string_view six_bytes);
// `header` of PacketSizes::header_bytes. kDataLoss.
Result<PacketHead> ParsePacketHead(std::string_view header);

// An operation as it is sent: version, operation, delimited message.
std::string EncodeOperation(uint8_t operation, const google::protobuf::MessageLite& message);

// The first node whose answer in `ack` is a failure, or -1 when every node has the packet. -2 for an answer that
// announces a restart of its node.
int FirstFailedNode(const wire::PipelineAck& ack);

}  // namespace paceline::hdfs
