// Reading fields of JSON that somebody else wrote, without exceptions: a field that is missing or of another type reads
// as absent. Pure functions; for sources that include the full nlohmann/json.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace paceline::kube {

// The member, or null when `object` is no object or has none of that name. Lives as long as `object`.
const nlohmann::json* Field(const nlohmann::json& object, const char* name);
// The member when it is an object (array), else null.
const nlohmann::json* ObjectField(const nlohmann::json& object, const char* name);
const nlohmann::json* ArrayField(const nlohmann::json& object, const char* name);
// The member when it is a string (integer, boolean), else "" (0, false).
std::string StringField(const nlohmann::json& object, const char* name);
int64_t IntegerField(const nlohmann::json& object, const char* name);
bool BoolField(const nlohmann::json& object, const char* name);

// StringField of the object's metadata.
std::string MetadataString(const nlohmann::json& object, const char* name);

}  // namespace paceline::kube
