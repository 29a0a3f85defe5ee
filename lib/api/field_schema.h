// Makes the structural OpenAPI schema of a described struct, with defaults taken from a default-constructed one and the
// CEL rules. Internal to lib/api; crd.cc puts the CustomResourceDefinition around it.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "lib/api/field_writer.h"
#include "lib/api/fields.h"

namespace paceline::api {

template <typename T>
OrderedJson StructSchema();

OrderedJson TextSchema(const FieldSpec& spec);
OrderedJson NumberSchema(const FieldSpec& spec, std::string_view type);
void AddListType(const FieldSpec& spec, OrderedJson& schema);
void AddRule(OrderedJson& schema, std::string_view cel, std::string_view message, std::string_view field);

template <typename T>
OrderedJson ValueSchema(const FieldSpec& spec) {
  if constexpr (IsOptional<T>::value) {
    return ValueSchema<typename T::value_type>(spec);
  } else if constexpr (IsVector<T>::value) {
    FieldSpec item_spec = spec;
    item_spec.required = true;
    OrderedJson schema{{"type", "array"}};
    if (spec.required) schema["minItems"] = 1;
    if (spec.max_items) schema["maxItems"] = *spec.max_items;
    schema["items"] = ValueSchema<typename T::value_type>(item_spec);
    AddListType(spec, schema);
    return schema;
  } else if constexpr (std::is_enum_v<T>) {
    OrderedJson schema{{"type", "string"}};
    for (const auto& [entry, text] : EnumTable<T>::kEntries) schema["enum"].push_back(std::string(text));
    return schema;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return TextSchema(spec);
  } else if constexpr (std::is_same_v<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return NumberSchema(spec, "integer");
  } else if constexpr (std::is_same_v<T, double>) {
    return NumberSchema(spec, "number");
  } else if constexpr (std::is_same_v<T, WallTime>) {
    return {{"type", "string"}, {"format", "date-time"}};
  } else if constexpr (std::is_same_v<T, Duration>) {
    return {{"type", "string"}, {"maxLength", 32}, {"pattern", R"(^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h|d))+)$)"}};
  } else if constexpr (std::is_same_v<T, TextMap>) {
    FieldSpec value_spec = spec;
    value_spec.required = false;
    OrderedJson schema{{"type", "object"}};
    if (spec.max_items) schema["maxProperties"] = *spec.max_items;
    schema["additionalProperties"] = TextSchema(value_spec);
    return schema;
  } else {
    static_assert(kIsStruct<T>);
    return StructSchema<T>();
  }
}

template <typename T>
class StructSchemaBuilder {
 public:
  template <typename M>
  void Field(std::string_view name, M T::*member, const FieldSpec& spec) {
    OrderedJson schema = ValueSchema<M>(spec);
    // Objects too are written out, not {}: the API server applies CEL rules to a default before it fills the default
    // in.
    if (spec.defaulted) schema["default"] = OrderedJson(WriteValue(spec, T{}.*member));
    Add(name, spec, std::move(schema));
  }

  template <typename Make, typename Check>
  void Opaque(std::string_view name, OpaqueJson T::*, const FieldSpec& spec, Make make, Check) {
    Add(name, spec, make());
  }

  template <typename Holds>
  void Rule(std::string_view cel, std::string_view message, std::string_view field, Holds) {
    AddRule(rules_, cel, message, field);
  }
  void TransitionRule(std::string_view cel, std::string_view message) { AddRule(rules_, cel, message, {}); }

  OrderedJson Take() {
    OrderedJson schema{{"type", "object"}};
    if (!required_.empty()) schema["required"] = std::move(required_);
    schema["properties"] = std::move(properties_);
    if (!rules_.empty()) schema["x-kubernetes-validations"] = std::move(rules_);
    return schema;
  }

 private:
  void Add(std::string_view name, const FieldSpec& spec, OrderedJson schema) {
    OrderedJson described{{"description", std::string(spec.doc)}};
    for (auto it = schema.begin(); it != schema.end(); ++it) described[it.key()] = std::move(it.value());
    properties_[std::string(name)] = std::move(described);
    if (spec.required) required_.push_back(std::string(name));
  }

  OrderedJson properties_ = OrderedJson::object();
  OrderedJson required_ = OrderedJson::array();
  OrderedJson rules_ = OrderedJson::array();
};

template <typename T>
OrderedJson StructSchema() {
  StructSchemaBuilder<T> builder;
  Fields(builder, static_cast<const T*>(nullptr));
  return builder.Take();
}

}  // namespace paceline::api
