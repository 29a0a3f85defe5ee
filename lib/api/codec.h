// Turns the API objects to and from JSON and checks them. One description of the fields (the *_fields.h files) drives
// reading, writing, checking, defaults, the CRDs and docs/api.md, so they cannot drift: docs/decisions/0004-crds.md.
//
// T is one of TrainingJob, TrainingRun, NodePlan, ImageProfile, DependencySnapshot, StragglerPolicy, Incident. All
// functions are pure, never throw and never crash on hostile input.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "lib/api/meta.h"
#include "lib/api/names.h"
#include "lib/base/result.h"

namespace paceline::api {

using Json = nlohmann::json;

// What to do with a field that the description does not know. Objects from the API server may come from a newer
// version and are read with kIgnore; files that a user wrote are read with kReject, where a typo should be heard of.
enum class UnknownFields { kIgnore, kReject };

// The object with defaults filled in. kInvalidArgument naming every field of the wrong type ("spec.workers: must be a
// whole number, not a string"), missing required fields, and text that is not UTF-8. Ranges and rules are Validate's.
template <typename T>
Result<T> FromJson(const Json& object, UnknownFields unknown = UnknownFields::kIgnore);

// The whole object with apiVersion and kind. Fields that are empty or absent are left out; fields with a default are
// always written. Text must be UTF-8; what is not is replaced by U+FFFD.
template <typename T>
Json ToJson(const T& object);

// Everything about the object that the API server would reject, and what CEL cannot express (quantities, globs). Empty
// when all is well.
template <typename T>
std::vector<FieldError> Validate(const T& object);

// Names and scope of T.
template <typename T>
const KindInfo& KindOf();

// The CustomResourceDefinition of one kind as JSON, ready for the API server.
Result<Json> CustomResourceDefinition(std::string_view kind);

// Parses JSON text without throwing. kInvalidArgument for bad syntax, invalid UTF-8, nesting deeper than 128 and more
// than 3 MiB, the API server's own limit.
Result<Json> ParseJson(std::string_view text);

}  // namespace paceline::api
