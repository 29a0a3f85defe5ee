// Checks the limits and rules of a described struct: what the CRD's schema and its CEL rules check at the API server,
// from the same description. Internal to lib/api.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "lib/api/field_writer.h"
#include "lib/api/fields.h"

namespace paceline::api {

template <typename T>
void CheckStruct(ErrorList& errors, const T& value);

// Two items of `list` with the same text (kSet) or the same key (kMap) are an error at the second.
void CheckUnique(ErrorList& errors, const FieldSpec& spec, const Json& list);

template <typename T>
void CheckValue(ErrorList& errors, const FieldSpec& spec, const T& value) {
  if constexpr (IsOptional<T>::value) {
    if (value) CheckValue(errors, spec, *value);
    if (!value && spec.required) errors.Add("is required");
  } else if constexpr (IsVector<T>::value) {
    CheckSize(errors, spec, value.size());
    FieldSpec item_spec = spec;
    item_spec.required = true;  // an empty entry in a list is never meant
    for (size_t i = 0; i < value.size(); ++i) {
      FieldPath::Scope scope(errors.path, i);
      CheckValue(errors, item_spec, value[i]);
    }
    if (spec.list != ListType::kAtomic) CheckUnique(errors, spec, WriteValue(spec, value));
  } else if constexpr (std::is_same_v<T, std::string>) {
    CheckText(errors, spec, value);
  } else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
    CheckNumber(errors, spec, static_cast<double>(value));
  } else if constexpr (std::is_same_v<T, TextMap>) {
    CheckSize(errors, spec, value.size());
    FieldSpec value_spec = spec;
    value_spec.required = false;
    for (const auto& [key, text] : value) {
      FieldPath::Scope scope(errors.path, key);
      CheckText(errors, value_spec, text);
    }
  } else if constexpr (kIsStruct<T>) {
    CheckStruct(errors, value);
  }
  // Enumerations, booleans and times have no limits; durations are positive by their notation.
}

template <typename T>
class StructChecker {
 public:
  StructChecker(ErrorList& errors, const T& value) : errors_(errors), value_(value) {}

  template <typename M>
  void Field(std::string_view name, M T::*member, const FieldSpec& spec) {
    FieldPath::Scope scope(errors_.path, name);
    CheckValue(errors_, spec, value_.*member);
  }

  template <typename Make, typename Check>
  void Opaque(std::string_view name, OpaqueJson T::*member, const FieldSpec& spec, Make, Check check) {
    FieldPath::Scope scope(errors_.path, name);
    const OpaqueJson& json = value_.*member;
    if (json != nullptr) {
      check(errors_, *json);
    } else if (spec.required) {
      errors_.Add("is required");
    }
  }

  template <typename Holds>
  void Rule(std::string_view, std::string_view message, std::string_view field, Holds holds) {
    if (holds(value_)) return;
    if (field.empty()) return errors_.Add(std::string(message));
    FieldPath::Scope scope(errors_.path, field);
    errors_.Add(std::string(message));
  }

  // Needs the object before the change, which only the API server has.
  void TransitionRule(std::string_view, std::string_view) {}

 private:
  ErrorList& errors_;
  const T& value_;
};

template <typename T>
void CheckStruct(ErrorList& errors, const T& value) {
  StructChecker<T> checker(errors, value);
  Fields(checker, static_cast<const T*>(nullptr));
}

}  // namespace paceline::api
