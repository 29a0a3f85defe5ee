#include "lib/base/json.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace paceline {

namespace {

// The library's parser is iterative, but its values are copied and destroyed by recursion: depth is refused before a
// value is built. Brackets inside strings do not count.
bool IsDeeperThan(std::string_view text, int max_depth) {
  int depth = 0;
  bool is_in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        is_in_string = false;
      }
    } else if (c == '"') {
      is_in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > max_depth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

std::vector<std::string> SplitAtDots(std::string_view path) {
  std::vector<std::string> parts;
  while (true) {
    const size_t dot = path.find('.');
    parts.emplace_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    path.remove_prefix(dot + 1);
  }
}

Status WrongType(const Json& found, std::string_view path, const char* wanted) {
  constexpr size_t kShownBytes = 60;
  std::string shown = DumpJson(found);
  if (shown.size() > kShownBytes) shown = shown.substr(0, kShownBytes) + "...";
  return InvalidArgumentError(fmt::format("{} must be {}, not {}", path, wanted, shown));
}

// The value at the path, or kNotFound.
Result<const Json*> Require(const Json& json, std::string_view path) {
  const Json* found = FindJson(json, path);
  if (found == nullptr) return NotFoundError(fmt::format("{} is not set", path));
  return found;
}

template <typename T>
Result<T> OrFallback(Result<T> read, T fallback) {
  if (read.status().code() == StatusCode::kNotFound) return fallback;
  return read;
}

}  // namespace

Result<Json> ParseJson(std::string_view text, int max_depth) {
  if (IsDeeperThan(text, max_depth)) {
    return InvalidArgumentError(fmt::format("JSON is nested deeper than {} levels", max_depth));
  }
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ...": the number is of no use to a reader.
    std::string what = error.what();
    if (const size_t end = what.find("] "); end != std::string::npos) what = what.substr(end + 2);
    return InvalidArgumentError("not valid JSON: " + what);
  }
}

std::string DumpJson(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string DumpJsonPretty(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

const Json* FindJsonAt(const Json& json, const std::vector<std::string>& parts) {
  const Json* at = &json;
  for (const std::string& part : parts) {
    if (at->is_object()) {
      const auto found = at->find(part);
      if (found == at->end()) return nullptr;
      at = &*found;
    } else if (at->is_array() && !part.empty() && part.size() < 10 &&
               part.find_first_not_of("0123456789") == std::string::npos) {
      const size_t index = std::stoul(part);
      if (index >= at->size()) return nullptr;
      at = &(*at)[index];
    } else {
      return nullptr;
    }
  }
  return at->is_null() ? nullptr : at;
}

const Json* FindJson(const Json& json, std::string_view path) { return FindJsonAt(json, SplitAtDots(path)); }

Result<std::string> JsonString(const Json& json, std::string_view path) {
  ASSIGN_OR_RETURN(const Json* found, Require(json, path));
  if (!found->is_string()) return WrongType(*found, path, "a string");
  return found->get_ref<const std::string&>();
}

Result<int64_t> JsonInt(const Json& json, std::string_view path) {
  ASSIGN_OR_RETURN(const Json* found, Require(json, path));
  if (found->is_number_unsigned() && found->get<uint64_t>() > std::numeric_limits<int64_t>::max()) {
    return WrongType(*found, path, "a whole number of at most 64 bits");
  }
  if (found->is_number_integer()) return found->get<int64_t>();
  // Writers in languages with one kind of number send 3.0 for 3.
  if (found->is_number_float()) {
    const double number = found->get<double>();
    if (std::trunc(number) == number && std::fabs(number) <= 9007199254740992.0) return static_cast<int64_t>(number);
  }
  return WrongType(*found, path, "a whole number");
}

Result<double> JsonDouble(const Json& json, std::string_view path) {
  ASSIGN_OR_RETURN(const Json* found, Require(json, path));
  if (!found->is_number()) return WrongType(*found, path, "a number");
  return found->get<double>();
}

Result<bool> JsonBool(const Json& json, std::string_view path) {
  ASSIGN_OR_RETURN(const Json* found, Require(json, path));
  if (!found->is_boolean()) return WrongType(*found, path, "true or false");
  return found->get<bool>();
}

Result<std::vector<std::string>> JsonStrings(const Json& json, std::string_view path) {
  ASSIGN_OR_RETURN(const Json* found, Require(json, path));
  if (!found->is_array()) return WrongType(*found, path, "a list of strings");
  std::vector<std::string> strings;
  for (const Json& item : *found) {
    if (!item.is_string()) return WrongType(*found, path, "a list of strings");
    strings.push_back(item.get_ref<const std::string&>());
  }
  return strings;
}

Result<std::string> JsonStringOr(const Json& json, std::string_view path, std::string fallback) {
  return OrFallback(JsonString(json, path), std::move(fallback));
}

Result<int64_t> JsonIntOr(const Json& json, std::string_view path, int64_t fallback) {
  return OrFallback(JsonInt(json, path), fallback);
}

Result<double> JsonDoubleOr(const Json& json, std::string_view path, double fallback) {
  return OrFallback(JsonDouble(json, path), fallback);
}

Result<bool> JsonBoolOr(const Json& json, std::string_view path, bool fallback) {
  return OrFallback(JsonBool(json, path), fallback);
}

}  // namespace paceline
