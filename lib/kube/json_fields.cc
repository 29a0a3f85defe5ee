#include "lib/kube/json_fields.h"

#include <nlohmann/json.hpp>

namespace paceline::kube {

using nlohmann::json;

const json* Field(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  auto it = object.find(name);
  return it == object.end() ? nullptr : &*it;
}

const json* ObjectField(const json& object, const char* name) {
  const json* field = Field(object, name);
  return field != nullptr && field->is_object() ? field : nullptr;
}

const json* ArrayField(const json& object, const char* name) {
  const json* field = Field(object, name);
  return field != nullptr && field->is_array() ? field : nullptr;
}

std::string StringField(const json& object, const char* name) {
  const json* field = Field(object, name);
  return field != nullptr && field->is_string() ? field->get<std::string>() : std::string();
}

int64_t IntegerField(const json& object, const char* name) {
  const json* field = Field(object, name);
  return field != nullptr && field->is_number_integer() ? field->get<int64_t>() : 0;
}

bool BoolField(const json& object, const char* name) {
  const json* field = Field(object, name);
  return field != nullptr && field->is_boolean() && field->get<bool>();
}

std::string MetadataString(const json& object, const char* name) {
  const json* metadata = ObjectField(object, "metadata");
  return metadata == nullptr ? std::string() : StringField(*metadata, name);
}

}  // namespace paceline::kube
