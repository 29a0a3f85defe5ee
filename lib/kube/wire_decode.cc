#include "lib/kube/wire_decode.h"

#include "lib/kube/views_fields.h"

namespace paceline::kube {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

// The years 1678 to 2261, which are what a WallTime holds and ParseRfc3339 accepts. A time beyond counts as absent: one
// odd object must not make a list unreadable.
constexpr int64_t kEarliestSeconds = -9'214'560'000;
constexpr int64_t kEndSeconds = 9'214'646'400;

constexpr std::string_view kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";

SharedString Text(std::string_view text, StringPool* pool) {
  return pool != nullptr ? pool->Intern(text) : SharedString(text);
}

bool ReadInt(const ProtoField& field, int64_t* out) {
  *out = static_cast<int64_t>(field.varint);
  return field.wire_type == 0;
}

struct MapEntry {
  std::string_view key, value;
};

bool ReadMapEntry(const ProtoField& field, MapEntry* entry) {
  if (field.wire_type != kBytesType) return false;
  ProtoReader reader(field.bytes);
  for (ProtoField part; reader.Next(&part);) {
    if (part.number > 2) continue;
    if (part.wire_type != kBytesType) return false;
    (part.number == 1 ? entry->key : entry->value) = part.bytes;
  }
  return reader.ok();
}

}  // namespace

bool FromProto(const ProtoField& field, SharedString* out, StringPool* pool) {
  *out = Text(field.bytes, pool);
  return field.wire_type == kBytesType;
}

bool FromProto(const ProtoField& field, bool* out, StringPool*) {
  *out = field.varint != 0;
  return field.wire_type == 0;
}

bool FromProto(const ProtoField& field, int32_t* out, StringPool*) {
  *out = static_cast<int32_t>(field.varint);
  return field.wire_type == 0;
}

bool FromProto(const ProtoField& field, int64_t* out, StringPool*) { return ReadInt(field, out); }

bool FromProto(const ProtoField& field, WallTime* out, StringPool*) {
  if (field.wire_type != kBytesType) return false;
  int64_t whole = 0, nanos = 0;
  ProtoReader reader(field.bytes);
  for (ProtoField part; reader.Next(&part);) {
    if (part.number == 1 && !ReadInt(part, &whole)) return false;
    if (part.number == 2 && !ReadInt(part, &nanos)) return false;
  }
  if (!reader.ok()) return false;
  const bool is_held = whole >= kEarliestSeconds && whole < kEndSeconds && nanos >= 0 && nanos <= 999'999'999;
  *out = is_held ? WallTime(seconds(whole)) + nanoseconds(nanos) : kNoTime;
  return true;
}

bool FromProto(const ProtoField& field, StringMap* out, StringPool* pool) {
  MapEntry entry;
  if (!ReadMapEntry(field, &entry)) return false;
  out->Set(Text(entry.key, pool), Text(entry.value, pool));
  return true;
}

bool QuantityFromProto(const ProtoField& field, StringMap* out, StringPool* pool) {
  MapEntry entry;
  if (!ReadMapEntry(field, &entry)) return false;
  std::string_view text;
  ProtoReader quantity(entry.value);
  for (ProtoField part; quantity.Next(&part);) {
    if (part.number == 1) text = part.bytes;
  }
  out->Set(Text(entry.key, pool), Text(text, pool));
  return quantity.ok();
}

bool AnnotationsFromProto(const ProtoField& field, ObjectMeta* out, StringPool* pool) {
  MapEntry entry;
  if (!ReadMapEntry(field, &entry)) return false;
  if (entry.key != kLastApplied) out->annotations.Set(Text(entry.key, pool), Text(entry.value, pool));
  return true;
}

bool FromJson(JsonReader& reader, SharedString* out, StringPool* pool) {
  std::string_view text;
  if (!reader.ReadString(&text)) return false;
  *out = Text(text, pool);
  return true;
}

bool FromJson(JsonReader& reader, bool* out, StringPool*) { return reader.ReadBool(out); }

bool FromJson(JsonReader& reader, int32_t* out, StringPool*) {
  int64_t value = 0;
  if (!reader.ReadInteger(&value) || value < std::numeric_limits<int32_t>::min() ||
      value > std::numeric_limits<int32_t>::max()) {
    return false;
  }
  *out = static_cast<int32_t>(value);
  return true;
}

bool FromJson(JsonReader& reader, int64_t* out, StringPool*) { return reader.ReadInteger(out); }

bool FromJson(JsonReader& reader, WallTime* out, StringPool*) {
  std::string_view text;
  if (!reader.ReadString(&text)) return false;
  *out = ParseRfc3339(text).value_or(kNoTime);
  return true;
}

bool FromJson(JsonReader& reader, StringMap* out, StringPool* pool) {
  std::string_view key;
  for (reader.EnterObject(); reader.NextKey(&key);) {
    std::string_view value;
    if (reader.Peek() == JsonReader::Kind::kNull) {
      if (!reader.Skip()) return false;
    } else if (reader.Peek() == JsonReader::Kind::kNumber) {  // a quantity may be written as a bare number
      if (!reader.Skip(&value)) return false;
    } else if (!reader.ReadString(&value)) {
      return false;
    }
    out->Set(Text(key, pool), Text(value, pool));
  }
  return reader.ok();
}

bool AnnotationsFromJson(JsonReader& reader, ObjectMeta* out, StringPool* pool) {
  std::string_view key, value;
  for (reader.EnterObject(); reader.NextKey(&key);) {
    if (key == kLastApplied || reader.Peek() == JsonReader::Kind::kNull) {
      if (!reader.Skip()) return false;
      continue;
    }
    if (!reader.ReadString(&value)) return false;
    out->annotations.Set(Text(key, pool), Text(value, pool));
  }
  return reader.ok();
}

bool MetaFromJson(std::string_view text, ObjectMeta* out, std::string_view* managed, StringPool* pool) {
  JsonReader whole(text);
  if (whole.Peek() == JsonReader::Kind::kNull) return true;
  if (!MessageFromJson<Fields<ObjectMeta>>(whole, out, pool)) return false;
  JsonReader reader(text);
  std::string_view key, raw;
  for (reader.EnterObject(); reader.NextKey(&key);) {
    const bool is_managed = key == "managedFields";
    if (!reader.Skip(&raw)) return false;
    if (is_managed) *managed = raw;
  }
  return reader.ok();
}

std::string WithoutMember(std::string_view text, std::string_view value) {
  if (value.empty()) return std::string(text);
  size_t begin = static_cast<size_t>(value.data() - text.data());
  size_t end = begin + value.size();
  begin = text.rfind('"', begin);      // the key's closing quote; keys that we look for hold no quotes
  begin = text.rfind('"', begin - 1);  // its opening one
  const size_t before = text.find_last_not_of(" \t\r\n", begin - 1);
  if (text[before] == ',') {
    begin = before;
  } else {
    const size_t after = text.find_first_not_of(" \t\r\n", end);
    if (text[after] == ',') end = after + 1;
  }
  return std::string(text.substr(0, begin)).append(text.substr(end));
}

}  // namespace paceline::kube
