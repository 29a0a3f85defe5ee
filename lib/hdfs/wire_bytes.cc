#include "lib/hdfs/wire_bytes.h"

#include <fmt/format.h>

namespace paceline::hdfs {

void AppendDelimited(const google::protobuf::MessageLite& message, std::string* out) {
  uint64_t size = message.ByteSizeLong();
  while (size >= 0x80) {
    out->push_back(static_cast<char>(size | 0x80));
    size >>= 7;
  }
  out->push_back(static_cast<char>(size));
  message.AppendToString(out);
}

bool ParseMessage(std::string_view bytes, google::protobuf::MessageLite* message) {
  return message->ParsePartialFromArray(bytes.data(), static_cast<int>(bytes.size())) && message->IsInitialized();
}

bool TakeVarint(std::string_view* bytes, uint64_t* value) {
  uint64_t result = 0;
  for (size_t i = 0; i < bytes->size() && i < 10; ++i) {
    const auto byte = static_cast<unsigned char>((*bytes)[i]);
    result |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      *value = result;
      bytes->remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

Status DelimitedReader::Next(std::string_view what, google::protobuf::MessageLite* message) {
  uint64_t size = 0;
  if (!TakeVarint(&rest_, &size) || size > rest_.size()) return DataLossError(fmt::format("{}: cut short", what));
  if (!ParseMessage(rest_.substr(0, size), message)) {
    return DataLossError(fmt::format("{}: malformed", what));
  }
  rest_.remove_prefix(size);
  return Status();
}

}  // namespace paceline::hdfs
