// A reader for the protobuf wire format, just enough for the API server's messages: fields one after the other, from
// bytes that stay where they are. Why not the protobuf library: docs/formats/kube-protobuf.md. Pure; bounds-checked on
// untrusted bytes.
#pragma once

#include <cstdint>
#include <string_view>

namespace paceline::kube {

// One field of a message.
struct ProtoField {
  uint32_t number = 0;
  uint32_t wire_type = 0;  // 0 varint, 1 64-bit, 2 length-delimited, 5 32-bit
  uint64_t varint = 0;     // wire types 0, 1 and 5
  std::string_view bytes;  // wire type 2
};

class ProtoReader {
 public:
  explicit ProtoReader(std::string_view message) : rest_(message) {}

  // The next field into `field`; false at the end and when the bytes make no sense, which ok() tells apart.
  bool Next(ProtoField* field);
  bool ok() const { return is_ok_; }

 private:
  bool Fail();

  std::string_view rest_;
  bool is_ok_ = true;
};

// Takes a base-128 varint from the front of `bytes`. False when there is no whole one, or one of more than 64 bits.
bool TakeVarint(std::string_view* bytes, uint64_t* value);

// What the API server puts in front of every protobuf body and embedded object: "k8s\0" and runtime.Unknown.
struct ProtoEnvelope {
  std::string_view api_version;
  std::string_view kind;
  std::string_view raw;  // the message itself
};
// False when `bytes` is not such an envelope, or its content is encoded (compressed) in a way we do not know.
bool OpenEnvelope(std::string_view bytes, ProtoEnvelope* envelope);

inline constexpr std::string_view kProtoMagic{"k8s\0", 4};

}  // namespace paceline::kube
