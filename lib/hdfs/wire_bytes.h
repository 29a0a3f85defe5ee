// Small pieces that every Hadoop frame is made of: big-endian numbers and varint-delimited protobuf messages. Internal
// to lib/hdfs. Pure functions; the reader borrows its bytes.
#pragma once

#include <google/protobuf/message_lite.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace paceline::hdfs {

inline void AppendBigEndian(uint64_t value, int bytes, std::string* out) {
  for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) out->push_back(static_cast<char>(value >> shift));
}

inline uint32_t LoadBigEndian32(const void* from) {
  const auto* bytes = static_cast<const unsigned char*>(from);
  return static_cast<uint32_t>(bytes[0]) << 24 | static_cast<uint32_t>(bytes[1]) << 16 |
         static_cast<uint32_t>(bytes[2]) << 8 | bytes[3];
}

inline uint16_t LoadBigEndian16(const void* from) {
  const auto* bytes = static_cast<const unsigned char*>(from);
  return static_cast<uint16_t>(bytes[0] << 8 | bytes[1]);
}

// The message behind its length. Required fields must be set.
void AppendDelimited(const google::protobuf::MessageLite& message, std::string* out);

// Takes `bytes` as one message. False when it is malformed or a required field is missing. Unlike protobuf's own call
// it prints nothing: the bytes are a peer's, and the caller says what was wrong.
bool ParseMessage(std::string_view bytes, google::protobuf::MessageLite* message);

// Walks over delimited messages in `bytes`, which must outlive it.
class DelimitedReader {
 public:
  explicit DelimitedReader(std::string_view bytes) : rest_(bytes) {}

  // kDataLoss, naming `what`, when the length or the message is cut or malformed.
  Status Next(std::string_view what, google::protobuf::MessageLite* message);
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// Reads a varint from the front of `*bytes`. False when it is cut; then, or when it is longer than ten bytes, nothing
// is taken.
bool TakeVarint(std::string_view* bytes, uint64_t* value);

}  // namespace paceline::hdfs
