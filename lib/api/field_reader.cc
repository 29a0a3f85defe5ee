#include "lib/api/field_reader.h"

#include <cmath>
#include <limits>

#include "lib/base/units.h"
#include "lib/base/utf8.h"

namespace paceline::api {

namespace {

constexpr int kMaxDepth = 128;

// False when some text below `value` is not UTF-8 or the nesting is deeper than we are ready to walk.
bool IsCleanTree(const Json& value, int depth) {
  if (depth > kMaxDepth) return false;
  if (value.is_string()) return IsValidUtf8(value.get_ref<const std::string&>());
  if (value.is_array()) {
    for (const Json& item : value) {
      if (!IsCleanTree(item, depth + 1)) return false;
    }
  }
  if (value.is_object()) {
    for (auto it = value.begin(); it != value.end(); ++it) {
      if (!IsValidUtf8(it.key()) || !IsCleanTree(it.value(), depth + 1)) return false;
    }
  }
  return true;
}

void WrongType(ReadContext& context, std::string_view wanted, const Json& value) {
  context.errors.Add("must be " + std::string(wanted) + ", not " + std::string(JsonTypeWords(value)));
}

}  // namespace

bool ExpectType(ReadContext& context, const Json& value, Json::value_t type, std::string_view words) {
  if (value.type() == type) return true;
  WrongType(context, words, value);
  return false;
}

void ReadScalar(ReadContext& context, const Json& value, bool& out) {
  if (ExpectType(context, value, Json::value_t::boolean, "true or false")) out = value.get<bool>();
}

void ReadScalar(ReadContext& context, const Json& value, int64_t& out) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return context.errors.Add("must be at most 9223372036854775807");
    }
    out = static_cast<int64_t>(number);
  } else if (value.is_number_integer()) {
    out = value.get<int64_t>();
  } else {
    WrongType(context, "a whole number", value);
  }
}

void ReadScalar(ReadContext& context, const Json& value, double& out) {
  if (!value.is_number()) return WrongType(context, "a number", value);
  const double number = value.get<double>();
  if (!std::isfinite(number)) return context.errors.Add("must be a finite number");
  out = number;
}

void ReadScalar(ReadContext& context, const Json& value, WallTime& out) {
  if (!ExpectType(context, value, Json::value_t::string, "a time")) return;
  const Result<WallTime> time = ParseRfc3339(value.get_ref<const std::string&>());
  if (time.ok()) {
    out = *time;
  } else {
    context.errors.Add("must be an RFC 3339 time such as 2026-01-02T03:04:05Z");
  }
}

void ReadScalar(ReadContext& context, const Json& value, Duration& out) {
  if (!ExpectType(context, value, Json::value_t::string, "a duration such as 1h30m")) return;
  const Result<Duration> duration = ParseDuration(value.get_ref<const std::string&>());
  if (duration.ok()) {
    out = *duration;
  } else {
    context.errors.Add(duration.status().message());
  }
}

void ReadScalar(ReadContext& context, const Json& value, OpaqueJson& out) {
  if (!ExpectType(context, value, Json::value_t::object, "an object")) return;
  if (!IsCleanTree(value, 0)) return context.errors.Add("must be UTF-8 text nested at most 128 levels deep");
  out = std::make_shared<const Json>(value);
}

void ReadText(ReadContext& context, const FieldSpec& spec, const Json& value, std::string& out) {
  if (spec.format != TextFormat::kPlain && value.is_number_integer()) {
    out = value.dump();
    return;
  }
  if (!ExpectType(context, value, Json::value_t::string, "text")) return;
  const std::string& text = value.get_ref<const std::string&>();
  if (!IsValidUtf8(text)) return context.errors.Add("must be UTF-8 text");
  out = text;
}

void ReadTextMap(ReadContext& context, const Json& value, TextMap& out) {
  if (!ExpectType(context, value, Json::value_t::object, "an object")) return;
  out.clear();
  for (auto it = value.begin(); it != value.end(); ++it) {
    FieldPath::Scope scope(context.errors.path, it.key());
    if (!IsValidUtf8(it.key())) {
      context.errors.Add("must have a UTF-8 name");
      continue;
    }
    ReadText(context, FieldSpec{}, it.value(), out[it.key()]);
  }
}

void RejectUnknown(ReadContext& context, const Json& object, const std::vector<std::string_view>& known) {
  const std::string& here = context.errors.path.text();
  if (here == "metadata") return;  // Kubernetes' own, of which we read a part
  for (auto it = object.begin(); it != object.end(); ++it) {
    bool is_known = false;
    for (std::string_view name : known) is_known = is_known || name == it.key();
    const bool is_type = here.empty() && (it.key() == "apiVersion" || it.key() == "kind");
    if (is_known || is_type) continue;
    FieldPath::Scope scope(context.errors.path, it.key());
    const std::string_view nearest = NearestName(it.key(), known);
    context.errors.Add(nearest.empty() ? "unknown field" : "unknown field; did you mean " + std::string(nearest) + "?");
  }
}

}  // namespace paceline::api
