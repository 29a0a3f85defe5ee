// Reads JSON into a described struct. Type errors, missing required fields and text that is not UTF-8 are collected
// with their paths and leave the field at its default; limits are field_checker.h's. Internal to lib/api.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/api/codec.h"
#include "lib/api/fields.h"

namespace paceline::api {

struct ReadContext {
  ErrorList errors;
  UnknownFields unknown = UnknownFields::kIgnore;
};

// Scalars are read by functions, so that each error message exists once.
void ReadScalar(ReadContext& context, const Json& value, bool& out);
void ReadScalar(ReadContext& context, const Json& value, int64_t& out);
void ReadScalar(ReadContext& context, const Json& value, double& out);
void ReadScalar(ReadContext& context, const Json& value, WallTime& out);
void ReadScalar(ReadContext& context, const Json& value, Duration& out);
void ReadScalar(ReadContext& context, const Json& value, OpaqueJson& out);
void ReadText(ReadContext& context, const FieldSpec& spec, const Json& value, std::string& out);
void ReadTextMap(ReadContext& context, const Json& value, TextMap& out);
bool ExpectType(ReadContext& context, const Json& value, Json::value_t type, std::string_view words);
void RejectUnknown(ReadContext& context, const Json& object, const std::vector<std::string_view>& known);

template <typename T>
void ReadStruct(ReadContext& context, const Json& value, T& out);

template <typename T>
void ReadValue(ReadContext& context, const FieldSpec& spec, const Json& value, T& out) {
  if constexpr (IsOptional<T>::value) {
    out.emplace();
    ReadValue(context, spec, value, *out);
  } else if constexpr (IsVector<T>::value) {
    if (!ExpectType(context, value, Json::value_t::array, "a list")) return;
    out.clear();
    for (size_t i = 0; i < value.size(); ++i) {
      FieldPath::Scope scope(context.errors.path, i);
      ReadValue(context, spec, value[i], out.emplace_back());
    }
  } else if constexpr (std::is_enum_v<T>) {
    std::string text;
    if (!ExpectType(context, value, Json::value_t::string, "text")) return;
    ReadText(context, spec, value, text);
    const std::optional<T> known = EnumValue<T>(text);
    if (known) {
      out = *known;
    } else {
      context.errors.Add("must be one of " + EnumChoices<T>());
    }
  } else if constexpr (std::is_same_v<T, std::string>) {
    ReadText(context, spec, value, out);
  } else if constexpr (std::is_same_v<T, TextMap>) {
    ReadTextMap(context, value, out);
  } else if constexpr (kIsStruct<T>) {
    ReadStruct(context, value, out);
  } else {
    ReadScalar(context, value, out);
  }
}

template <typename T>
class StructReader {
 public:
  StructReader(ReadContext& context, const Json& object, T& out) : context_(context), object_(object), out_(out) {}

  template <typename M>
  void Field(std::string_view name, M T::*member, const FieldSpec& spec) {
    known_.push_back(name);
    FieldPath::Scope scope(context_.errors.path, name);
    const auto found = object_.find(name);
    if (found == object_.end() || found->is_null()) {
      if (spec.required) context_.errors.Add("is required");
      return;
    }
    ReadValue(context_, spec, *found, out_.*member);
  }

  template <typename Make, typename Check>
  void Opaque(std::string_view name, OpaqueJson T::*member, const FieldSpec& spec, Make, Check) {
    Field(name, member, spec);
  }

  template <typename Holds>
  void Rule(std::string_view, std::string_view, std::string_view, Holds) {}
  void TransitionRule(std::string_view, std::string_view) {}

  void Finish() {
    if (context_.unknown == UnknownFields::kReject) RejectUnknown(context_, object_, known_);
  }

 private:
  ReadContext& context_;
  const Json& object_;
  T& out_;
  std::vector<std::string_view> known_;
};

template <typename T>
void ReadStruct(ReadContext& context, const Json& value, T& out) {
  if (!ExpectType(context, value, Json::value_t::object, "an object")) return;
  StructReader<T> reader(context, value, out);
  Fields(reader, static_cast<const T*>(nullptr));
  reader.Finish();
}

}  // namespace paceline::api
