#include "lib/kube/wire_proto.h"

namespace paceline::kube {

bool TakeVarint(std::string_view* bytes, uint64_t* value) {
  uint64_t result = 0;
  for (size_t i = 0; i < bytes->size() && i < 10; ++i) {
    const uint8_t byte = static_cast<uint8_t>((*bytes)[i]);
    if (i == 9 && byte > 1) return false;  // beyond 64 bits
    result |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) {
      *value = result;
      bytes->remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

bool ProtoReader::Fail() {
  is_ok_ = false;
  rest_ = {};
  return false;
}

bool ProtoReader::Next(ProtoField* field) {
  if (rest_.empty()) return false;
  uint64_t tag = 0;
  if (!TakeVarint(&rest_, &tag) || (tag >> 3) == 0 || (tag >> 3) > 0x1fffffff) return Fail();
  field->number = static_cast<uint32_t>(tag >> 3);
  field->wire_type = static_cast<uint32_t>(tag & 7);
  field->varint = 0;
  field->bytes = {};
  switch (field->wire_type) {
    case 0: return TakeVarint(&rest_, &field->varint) || Fail();
    case 2: {
      uint64_t length = 0;
      if (!TakeVarint(&rest_, &length) || length > rest_.size()) return Fail();
      field->bytes = rest_.substr(0, length);
      rest_.remove_prefix(length);
      return true;
    }
    case 1:
    case 5: {
      const size_t width = field->wire_type == 1 ? 8 : 4;
      if (rest_.size() < width) return Fail();
      for (size_t i = 0; i < width; ++i)
        field->varint |= static_cast<uint64_t>(static_cast<uint8_t>(rest_[i])) << (8 * i);
      rest_.remove_prefix(width);
      return true;
    }
    default: return Fail();  // groups are not used, and 6 and 7 do not exist
  }
}

bool OpenEnvelope(std::string_view bytes, ProtoEnvelope* envelope) {
  if (!bytes.starts_with(kProtoMagic)) return false;
  *envelope = {};
  ProtoReader unknown(bytes.substr(kProtoMagic.size()));
  ProtoField field;
  while (unknown.Next(&field)) {
    if (field.number == 1 && field.wire_type == 2) {
      ProtoReader type_meta(field.bytes);
      ProtoField part;
      while (type_meta.Next(&part)) {
        if (part.number == 1) envelope->api_version = part.bytes;
        if (part.number == 2) envelope->kind = part.bytes;
      }
      if (!type_meta.ok()) return false;
    } else if (field.number == 2 && field.wire_type == 2) {
      envelope->raw = field.bytes;
    } else if (field.number == 3 && !field.bytes.empty()) {
      return false;
    }
  }
  return unknown.ok();
}

}  // namespace paceline::kube
