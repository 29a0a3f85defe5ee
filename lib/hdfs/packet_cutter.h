// Cuts a block's bytes into packets. Pure, so that the rules about partial chunks stand in a table of its test; used by
// BlockWriter. Not thread-safe.
//
// A packet holds whole chunks, except the last one before a flush or the end of the block. The DataNode keeps the CRC
// of a chunk that is not full yet; when more of it comes, the packet starts again at the chunk's beginning (or where an
// append began, whose earlier bytes only the DataNode has) and ends with that chunk at the latest in the case of an
// append.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/hdfs/block.h"

namespace paceline::hdfs {

struct OutgoingPacket {
  uint64_t offset = 0;  // in the block
  std::string data;
  std::string checksums;
  bool is_last = false;
  bool is_sync = false;

  uint64_t end() const { return offset + data.size(); }
};

class PacketCutter {
 public:
  struct Options {
    ChecksumType checksum = ChecksumType::kCrc32c;
    uint32_t chunk_bytes = 512;
    size_t packet_bytes = 128 << 10;  // a multiple of chunk_bytes
  };

  // `start` is the length that the block has already: 0 for a new one.
  PacketCutter(const Options& options, uint64_t start);

  // Takes bytes from the front of `*data` into the packet that is being filled. Gives the packet when it is full.
  std::optional<OutgoingPacket> Add(std::string_view* data);

  // What has been added and not given yet, also when it ends in the middle of a chunk. Nothing when there is none.
  std::optional<OutgoingPacket> Flush();

  // The end of all bytes that were added.
  uint64_t position() const { return start_ + filling_.size(); }

 private:
  OutgoingPacket Cut();
  size_t Room() const;

  const Options options_;
  const uint64_t append_start_;  // bytes before it are unknown here
  uint64_t start_;               // offset of the packet that is being filled
  std::string filling_;
  size_t sent_ = 0;  // bytes at the front of filling_ that an earlier packet has carried
};

}  // namespace paceline::hdfs
