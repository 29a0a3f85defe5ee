// JSON without exceptions: parsing, reading by path, writing. nlohmann-json inside, whose own accessors throw on the
// first surprise in somebody else's document; code that reads documents from outside uses these instead. Pure
// functions.
//
// Includes only the library's forward declarations; sources that build documents include <nlohmann/json.hpp>
// themselves.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace paceline {

using Json = nlohmann::json;

// Deep enough for any Kubernetes object, shallow enough for any stack.
inline constexpr int kMaxJsonDepth = 200;

// kInvalidArgument with the byte position for text that is not one JSON value, that is not UTF-8, or that is nested
// deeper than `max_depth`.
Result<Json> ParseJson(std::string_view text, int max_depth = kMaxJsonDepth);

// One line, keys sorted, never fails: bytes that are not UTF-8 become U+FFFD, and numbers that JSON lacks become null.
std::string DumpJson(const Json& json);
// The same with two blanks per level.
std::string DumpJsonPretty(const Json& json);

// Lookups by path: "spec.workers", "status.conditions.0.type". A part of digits is an index where the value at hand is
// an array. The value is null when a part is missing, is null, or lies below a value that has no parts. It lives in
// `json`.
const Json* FindJson(const Json& json, std::string_view path);
// For keys that have dots in them: FindJsonAt(pod, {"metadata", "labels", "app.kubernetes.io/name"}).
const Json* FindJsonAt(const Json& json, const std::vector<std::string>& parts);

// Typed reads. kNotFound when FindJson gives null, kInvalidArgument when the value has another type or does not fit;
// the message names the path and what is there.
Result<std::string> JsonString(const Json& json, std::string_view path);
Result<int64_t> JsonInt(const Json& json, std::string_view path);
Result<double> JsonDouble(const Json& json, std::string_view path);
Result<bool> JsonBool(const Json& json, std::string_view path);
// Of an array of strings.
Result<std::vector<std::string>> JsonStrings(const Json& json, std::string_view path);

// The same, but an absent value is `fallback`. A value of another type stays an error.
Result<std::string> JsonStringOr(const Json& json, std::string_view path, std::string fallback);
Result<int64_t> JsonIntOr(const Json& json, std::string_view path, int64_t fallback);
Result<double> JsonDoubleOr(const Json& json, std::string_view path, double fallback);
Result<bool> JsonBoolOr(const Json& json, std::string_view path, bool fallback);

}  // namespace paceline
