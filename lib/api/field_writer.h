// Writes a described struct as JSON. Empty text, lists, maps and absent optionals are left out; numbers, booleans and
// enumerations are always written, so that a zero in a status is a statement. Internal to lib/api.
#pragma once

#include <string_view>
#include <utility>

#include "lib/api/fields.h"
#include "lib/base/units.h"
#include "lib/base/utf8.h"

namespace paceline::api {

template <typename T>
Json WriteStruct(const T& value);

// As text, or as a number where the field takes both and the text is one.
Json WriteText(const FieldSpec& spec, const std::string& text);

template <typename T>
Json WriteValue(const FieldSpec& spec, const T& value) {
  if constexpr (IsOptional<T>::value) {
    return value ? WriteValue(spec, *value) : Json();
  } else if constexpr (IsVector<T>::value) {
    Json list = Json::array();
    for (const auto& item : value) list.push_back(WriteValue(spec, item));
    return list;
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(EnumText(value));
  } else if constexpr (std::is_same_v<T, std::string>) {
    return WriteText(spec, value);
  } else if constexpr (std::is_same_v<T, WallTime>) {
    // Stage times need the fraction; where there is none it is left out, as Kubernetes itself writes times.
    const bool is_whole = value == std::chrono::floor<std::chrono::seconds>(value);
    return is_whole ? FormatRfc3339(value) : FormatRfc3339Micro(value);
  } else if constexpr (std::is_same_v<T, Duration>) {
    return FormatDuration(value);
  } else if constexpr (std::is_same_v<T, OpaqueJson>) {
    return value == nullptr ? Json() : *value;
  } else if constexpr (std::is_same_v<T, TextMap>) {
    Json map = Json::object();
    for (const auto& [key, text] : value) map[ReplaceInvalidUtf8(key)] = ReplaceInvalidUtf8(text);
    return map;
  } else if constexpr (kIsStruct<T>) {
    return WriteStruct(value);
  } else {
    return value;
  }
}

template <typename T>
class StructWriter {
 public:
  explicit StructWriter(const T& value) : value_(value) {}

  template <typename M>
  void Field(std::string_view name, M T::*member, const FieldSpec& spec) {
    Json written = WriteValue(spec, value_.*member);
    if (!IsEmpty(spec, written)) out_[std::string(name)] = std::move(written);
  }

  template <typename Make, typename Check>
  void Opaque(std::string_view name, OpaqueJson T::*member, const FieldSpec& spec, Make, Check) {
    Field(name, member, spec);
  }

  template <typename Holds>
  void Rule(std::string_view, std::string_view, std::string_view, Holds) {}
  void TransitionRule(std::string_view, std::string_view) {}

  Json Take() { return std::move(out_); }

 private:
  static bool IsEmpty(const FieldSpec& spec, const Json& written) {
    if (written.is_null()) return true;
    if (written.is_structured()) return written.empty();
    if (written.is_string()) return written.get_ref<const std::string&>().empty();
    return spec.omit_zero && written == 0;
  }

  const T& value_;
  Json out_ = Json::object();
};

template <typename T>
Json WriteStruct(const T& value) {
  StructWriter<T> writer(value);
  Fields(writer, static_cast<const T*>(nullptr));
  return writer.Take();
}

}  // namespace paceline::api
