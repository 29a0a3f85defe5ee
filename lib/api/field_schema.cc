#include "lib/api/field_schema.h"

#include <cmath>

namespace paceline::api {

namespace {

OrderedJson NumberJson(double value) {
  if (value == std::floor(value) && std::abs(value) < 9e15) return static_cast<int64_t>(value);
  return value;
}

}  // namespace

OrderedJson TextSchema(const FieldSpec& spec) {
  OrderedJson schema;
  if (spec.format == TextFormat::kPlain) {
    schema["type"] = "string";
    if (spec.required) schema["minLength"] = 1;
  } else {
    schema["anyOf"] = OrderedJson::array({{{"type", "integer"}}, {{"type", "string"}}});
    schema["x-kubernetes-int-or-string"] = true;
  }
  if (spec.max_length) schema["maxLength"] = *spec.max_length;
  if (spec.format == TextFormat::kQuantity) {
    schema["pattern"] = R"(^([0-9]+|[0-9]*\.[0-9]+|[0-9]+\.)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?[0-9]+)?$)";
  } else if (spec.format == TextFormat::kCountOrPercent) {
    schema["pattern"] = "^([0-9]{1,6}|([0-9]|[1-9][0-9]|100)%)$";
  } else if (!spec.pattern.empty()) {
    // Text that is not required may be empty, as if it were absent.
    schema["pattern"] = spec.required ? std::string(spec.pattern) : "^$|" + std::string(spec.pattern);
  }
  return schema;
}

OrderedJson NumberSchema(const FieldSpec& spec, std::string_view type) {
  OrderedJson schema{{"type", std::string(type)}};
  schema["format"] = type == "integer" ? "int64" : "double";
  if (spec.minimum) schema["minimum"] = NumberJson(*spec.minimum);
  if (spec.maximum) schema["maximum"] = NumberJson(*spec.maximum);
  return schema;
}

void AddListType(const FieldSpec& spec, OrderedJson& schema) {
  switch (spec.list) {
    case ListType::kAtomic: schema["x-kubernetes-list-type"] = "atomic"; break;
    case ListType::kSet: schema["x-kubernetes-list-type"] = "set"; break;
    case ListType::kMap:
      schema["x-kubernetes-list-type"] = "map";
      schema["x-kubernetes-list-map-keys"] = OrderedJson::array({std::string(spec.list_key)});
      break;
  }
}

void AddRule(OrderedJson& rules, std::string_view cel, std::string_view message, std::string_view field) {
  OrderedJson rule{{"rule", std::string(cel)}, {"message", std::string(message)}};
  if (!field.empty()) rule["fieldPath"] = "." + std::string(field);
  rules.push_back(std::move(rule));
}

}  // namespace paceline::api
