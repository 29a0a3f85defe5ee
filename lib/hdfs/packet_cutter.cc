#include "lib/hdfs/packet_cutter.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/hdfs/checksum.h"

namespace paceline::hdfs {

PacketCutter::PacketCutter(const Options& options, uint64_t start)
    : options_(options), append_start_(start), start_(start) {
  CHECK(options.packet_bytes % options.chunk_bytes == 0);
  filling_.reserve(options.packet_bytes);
}

// A packet that does not start at a chunk's border may only fill up that chunk.
size_t PacketCutter::Room() const {
  const size_t into_chunk = start_ % options_.chunk_bytes;
  return (into_chunk == 0 ? options_.packet_bytes : options_.chunk_bytes - into_chunk) - filling_.size();
}

std::optional<OutgoingPacket> PacketCutter::Add(std::string_view* data) {
  const size_t take = std::min(Room(), data->size());
  filling_.append(data->substr(0, take));
  data->remove_prefix(take);
  if (Room() > 0) return std::nullopt;
  OutgoingPacket packet = Cut();
  start_ = packet.end();
  filling_.clear();
  sent_ = 0;
  return packet;
}

std::optional<OutgoingPacket> PacketCutter::Flush() {
  if (filling_.size() == sent_) return std::nullopt;
  OutgoingPacket packet = Cut();
  // The chunk that is not full is carried once more by the next packet.
  const uint64_t end = packet.end();
  const uint64_t chunk_start = std::max(end - end % options_.chunk_bytes, append_start_);
  const uint64_t keep_from = std::max(chunk_start, start_);
  filling_.erase(0, keep_from - start_);
  start_ = keep_from;
  sent_ = filling_.size();
  return packet;
}

OutgoingPacket PacketCutter::Cut() {
  OutgoingPacket packet;
  packet.offset = start_;
  packet.data = filling_;
  AppendChecksums(options_.checksum, options_.chunk_bytes, packet.data, &packet.checksums);
  return packet;
}

}  // namespace paceline::hdfs
