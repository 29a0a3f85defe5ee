// Tables that say where each member of a view is on either wire, and the two loops that read by them. One description
// for protobuf and JSON is what keeps the two decoders equal. Used by views*.cc only.
//
//   template <> struct Fields<Taint> {
//     static constexpr FieldSpec<Taint> kList[] = {Field<&Taint::key>(1, "key"), Field<&Taint::value>(2, "value")};
//   };
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/kube/views.h"
#include "lib/kube/wire_json.h"
#include "lib/kube/wire_proto.h"

namespace paceline::kube {

// `pool` may be null. Both functions return false for a value of the wrong kind.
template <typename Message>
struct FieldSpec {
  uint32_t number;
  std::string_view name;
  bool (*from_proto)(const ProtoField& field, Message* out, StringPool* pool);
  bool (*from_json)(JsonReader& reader, Message* out, StringPool* pool);
};

// Specialised for each message: static constexpr FieldSpec<Message> kList[].
template <typename Message>
struct Fields;

inline constexpr uint32_t kBytesType = 2;

// Reads `bytes` into `out` by Table::kList; fields that the table does not name are skipped.
template <typename Table, typename Message>
bool MessageFromProto(std::string_view bytes, Message* out, StringPool* pool) {
  ProtoReader reader(bytes);
  for (ProtoField field; reader.Next(&field);) {
    for (const FieldSpec<Message>& spec : Table::kList) {
      if (spec.number != field.number) continue;
      if (!spec.from_proto(field, out, pool)) return false;
      break;
    }
  }
  return reader.ok();
}

template <typename Table, typename Message>
bool MessageFromJson(JsonReader& reader, Message* out, StringPool* pool) {
  std::string_view key;
  for (reader.EnterObject(); reader.NextKey(&key);) {
    const FieldSpec<Message>* found = nullptr;
    for (const FieldSpec<Message>& spec : Table::kList) {
      if (spec.name == key) {
        found = &spec;
        break;
      }
    }
    // In JSON null means absent.
    const bool is_read = found == nullptr || reader.Peek() == JsonReader::Kind::kNull
                             ? reader.Skip()
                             : found->from_json(reader, out, pool);
    if (!is_read) return false;
  }
  return reader.ok();
}

// The scalars.
bool FromProto(const ProtoField& field, SharedString* out, StringPool* pool);
bool FromProto(const ProtoField& field, bool* out, StringPool* pool);
bool FromProto(const ProtoField& field, int32_t* out, StringPool* pool);
bool FromProto(const ProtoField& field, int64_t* out, StringPool* pool);
bool FromProto(const ProtoField& field, WallTime* out, StringPool* pool);
bool FromProto(const ProtoField& field, StringMap* out, StringPool* pool);
bool FromJson(JsonReader& reader, SharedString* out, StringPool* pool);
bool FromJson(JsonReader& reader, bool* out, StringPool* pool);
bool FromJson(JsonReader& reader, int32_t* out, StringPool* pool);
bool FromJson(JsonReader& reader, int64_t* out, StringPool* pool);
bool FromJson(JsonReader& reader, WallTime* out, StringPool* pool);
bool FromJson(JsonReader& reader, StringMap* out, StringPool* pool);

template <typename Message>
bool FromProto(const ProtoField& field, Message* out, StringPool* pool) {
  return field.wire_type == kBytesType && MessageFromProto<Fields<Message>>(field.bytes, out, pool);
}
template <typename Message>
bool FromJson(JsonReader& reader, Message* out, StringPool* pool) {
  return MessageFromJson<Fields<Message>>(reader, out, pool);
}

template <typename Value>
bool FromProto(const ProtoField& field, std::optional<Value>* out, StringPool* pool) {
  return FromProto(field, &out->emplace(), pool);
}
template <typename Value>
bool FromJson(JsonReader& reader, std::optional<Value>* out, StringPool* pool) {
  return FromJson(reader, &out->emplace(), pool);
}

template <typename Value>
bool FromProto(const ProtoField& field, std::vector<Value>* out, StringPool* pool) {
  return FromProto(field, &out->emplace_back(), pool);
}
template <typename Value>
bool FromJson(JsonReader& reader, std::vector<Value>* out, StringPool* pool) {
  for (reader.EnterArray(); reader.NextElement();) {
    if (!FromJson(reader, &out->emplace_back(), pool)) return false;
  }
  return reader.ok();
}

template <auto Member>
struct MemberOf;
template <typename M, typename V, V M::*Pointer>
struct MemberOf<Pointer> {
  using Message = M;
};

// A member that is at `number` in protobuf and `name` in JSON.
template <auto Member, typename Message = typename MemberOf<Member>::Message>
constexpr FieldSpec<Message> Field(uint32_t number, std::string_view name) {
  return {
      number, name,
      [](const ProtoField& field, Message* out, StringPool* pool) { return FromProto(field, &(out->*Member), pool); },
      [](JsonReader& reader, Message* out, StringPool* pool) { return FromJson(reader, &(out->*Member), pool); }};
}

// The same for texts that are different in every object, which a pool would only be filled with.
template <auto Member, typename Message = typename MemberOf<Member>::Message>
constexpr FieldSpec<Message> UniqueField(uint32_t number, std::string_view name) {
  return {number, name,
          [](const ProtoField& field, Message* out, StringPool*) { return FromProto(field, &(out->*Member), nullptr); },
          [](JsonReader& reader, Message* out, StringPool*) { return FromJson(reader, &(out->*Member), nullptr); }};
}

// A nested message whose members are kept in the same struct, read by `Table`.
template <typename Message, typename Table>
constexpr FieldSpec<Message> Flattened(uint32_t number, std::string_view name) {
  return {number, name,
          [](const ProtoField& field, Message* out, StringPool* pool) {
            return field.wire_type == kBytesType && MessageFromProto<Table>(field.bytes, out, pool);
          },
          [](JsonReader& reader, Message* out, StringPool* pool) { return MessageFromJson<Table>(reader, out, pool); }};
}

}  // namespace paceline::kube
