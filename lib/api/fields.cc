#include "lib/api/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "lib/api/quantity.h"
#include "lib/base/utf8.h"

namespace paceline::api {

namespace {

constexpr size_t kMaxErrors = 64;
// std::regex recurses per character, so a pattern is tried only on text that cannot exhaust the stack.
constexpr size_t kMaxPatternText = 4096;

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

bool MatchesPattern(std::string_view text, std::string_view pattern) {
  const std::regex expression(pattern.begin(), pattern.end(), std::regex::ECMAScript | std::regex::optimize);
  return std::regex_search(text.begin(), text.end(), expression);
}

void CheckFormat(ErrorList& errors, TextFormat format, const std::string& text) {
  if (format == TextFormat::kQuantity) {
    const Result<int64_t> parsed = ParseQuantity(text);
    if (!parsed.ok()) errors.Add(parsed.status().message());
  }
  if (format == TextFormat::kCountOrPercent && !MatchesPattern(text, "^([0-9]{1,6}|([0-9]|[1-9][0-9]|100)%)$")) {
    errors.Add("must be a whole number or a percentage from 0% to 100%");
  }
}

}  // namespace

FieldPath::Scope::Scope(FieldPath& path, std::string_view field) : path_(path), length_(path.text_.size()) {
  if (!path_.text_.empty()) path_.text_ += '.';
  path_.text_ += TruncateUtf8(field, 128);
}

FieldPath::Scope::Scope(FieldPath& path, size_t index) : path_(path), length_(path.text_.size()) {
  path_.text_ += fmt::format("[{}]", index);
}

void ErrorList::AddAt(std::string where, std::string message) {
  if (errors_.size() < kMaxErrors) errors_.push_back({std::move(where), std::move(message)});
}

std::string_view JsonTypeWords(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return "a list";
    case Json::value_t::string: return "text";
    case Json::value_t::boolean: return "true or false";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned: return "a whole number";
    case Json::value_t::number_float: return "a fraction";
    case Json::value_t::binary: return "binary data";
    case Json::value_t::discarded: return "unreadable";
  }
  return "something else";
}

void CheckText(ErrorList& errors, const FieldSpec& spec, const std::string& text) {
  if (!IsValidUtf8(text)) return errors.Add("must be UTF-8 text");
  if (spec.required && text.empty()) return errors.Add("must not be empty");
  // The API server counts characters, not bytes.
  const auto characters = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  if (spec.max_length && characters > *spec.max_length) {
    return errors.Add(fmt::format("must have at most {} characters, has {}", *spec.max_length, characters));
  }
  if (text.empty()) return;
  if (spec.format != TextFormat::kPlain) return CheckFormat(errors, spec.format, text);
  if (spec.pattern.empty()) return;
  if (text.size() > kMaxPatternText || !MatchesPattern(text, spec.pattern)) errors.Add(std::string(spec.pattern_words));
}

void CheckNumber(ErrorList& errors, const FieldSpec& spec, double value) {
  if (spec.minimum && !(value >= *spec.minimum)) errors.Add("must be at least " + NumberText(*spec.minimum));
  if (spec.maximum && !(value <= *spec.maximum)) errors.Add("must be at most " + NumberText(*spec.maximum));
}

void CheckSize(ErrorList& errors, const FieldSpec& spec, size_t items) {
  if (spec.required && items == 0) errors.Add("must have at least one entry");
  if (spec.max_items && items > static_cast<size_t>(*spec.max_items)) {
    errors.Add(fmt::format("must have at most {} entries, has {}", *spec.max_items, items));
  }
}

std::string_view NearestName(std::string_view name, const std::vector<std::string_view>& known) {
  std::string_view nearest;
  size_t best = std::min<size_t>(name.size() / 2 + 1, 8);  // further away is not a typo
  if (name.size() > 128) return nearest;
  for (std::string_view candidate : known) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string NumberText(double value) { return fmt::format("{}", value); }

}  // namespace paceline::api
