#include "snapshotter/plugin/snapshot_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <regex>

namespace paceline::snapshotter {
namespace {

using Selector = SnapshotFilter::Selector;

// Beyond this the library's matcher may run out of stack.
constexpr size_t kMaxPatternBytes = 1024;
constexpr size_t kMaxMatchedBytes = 4096;

bool IsNameLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class FilterReader {
 public:
  explicit FilterReader(std::string_view text) : text_(text) {}

  Result<std::vector<Selector>> Read() {
    std::vector<Selector> selectors;
    do {
      ASSIGN_OR_RETURN(Selector selector, ReadSelector());
      selectors.push_back(std::move(selector));
    } while (Take(","));
    SkipBlanks();
    if (at_ != text_.size()) return Wrong("a comma or the end was expected");
    return selectors;
  }

 private:
  Status Wrong(std::string_view what) const {
    return InvalidArgumentError(fmt::format("filter \"{}\", byte {}: {}", text_, at_, what));
  }
  // Blanks may stand before every token.
  void SkipBlanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool Take(std::string_view token) {
    SkipBlanks();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  Result<Selector> ReadSelector() {
    Selector selector;
    do {
      ASSIGN_OR_RETURN(std::string field, ReadField());
      selector.path.push_back(std::move(field));
    } while (Take("."));
    if (Take("==")) {
      selector.op = Selector::Operator::kEqual;
    } else if (Take("!=")) {
      selector.op = Selector::Operator::kNotEqual;
    } else if (Take("~=")) {
      selector.op = Selector::Operator::kMatches;
    } else {
      return selector;
    }
    ASSIGN_OR_RETURN(selector.value, ReadValue(selector.op));
    return selector;
  }

  Result<std::string> ReadField() {
    SkipBlanks();
    if (at_ < text_.size() && text_[at_] == '"') return ReadQuoted();
    const size_t start = at_;
    while (at_ < text_.size() && IsNameLetter(text_[at_])) ++at_;
    if (at_ == start) return Wrong("a field name was expected");
    return std::string(text_.substr(start, at_ - start));
  }

  Result<std::string> ReadValue(Selector::Operator op) {
    SkipBlanks();
    const char first = at_ < text_.size() ? text_[at_] : '\0';
    if (first == '"') return ReadQuoted();
    // Patterns may stand in these, so that they need not be escaped.
    if (op == Selector::Operator::kMatches && (first == '/' || first == '|')) return ReadPlainQuoted(first);
    const size_t start = at_;
    while (at_ < text_.size() && text_[at_] != ',' && static_cast<unsigned char>(text_[at_]) > ' ') ++at_;
    if (at_ == start) return Wrong("a value was expected");
    return std::string(text_.substr(start, at_ - start));
  }

  Result<std::string> ReadPlainQuoted(char quote) {
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return Wrong("a quote without an end");
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }

  Result<std::string> ReadQuoted() {
    std::string value;
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return value;
      }
      if (c != '\\') {
        value += c;
        continue;
      }
      const std::optional<char> escaped = ReadEscape();
      if (!escaped) return Wrong("an unknown escape");
      value += *escaped;
    }
    return Wrong("a quote without an end");
  }

  // At a backslash; ends at the last byte of the escape.
  std::optional<char> ReadEscape() {
    if (++at_ >= text_.size()) return std::nullopt;
    constexpr std::string_view kLetters = "abfnrtv\\\"'", kMeanings = "\a\b\f\n\r\t\v\\\"'";
    const size_t found = kLetters.find(text_[at_]);
    if (found != std::string_view::npos) return kMeanings[found];
    if (text_[at_] != 'x' || at_ + 2 >= text_.size()) return std::nullopt;
    const int high = HexDigit(text_[at_ + 1]), low = HexDigit(text_[at_ + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    at_ += 2;
    return static_cast<char>(high * 16 + low);
  }

  const std::string_view text_;
  size_t at_ = 0;
};

std::string JoinFrom(const std::vector<std::string>& path, size_t first) {
  std::string joined;
  for (size_t i = first; i < path.size(); ++i) joined += (i > first ? "." : "") + path[i];
  return joined;
}

// The value of a field, or nothing when the snapshot has none.
std::optional<std::string> FieldOf(const SnapshotRecord& snapshot, const std::vector<std::string>& path) {
  const std::string& field = path.front();
  if (field == "kind") return std::string(SnapshotKindName(snapshot.kind));
  if (field == "name") return snapshot.name;
  if (field == "parent") return snapshot.parent;  // also the bottom layer has one: ""
  if (field != "labels" || path.size() < 2) return std::nullopt;
  // Keys have dots in them; unquoted they come as several parts.
  const auto label = snapshot.labels.find(JoinFrom(path, 1));
  return label == snapshot.labels.end() ? std::nullopt : std::optional(label->second);
}

bool MatchesPattern(const std::string& pattern, const std::string& value) {
  if (pattern.size() > kMaxPatternBytes || value.size() > kMaxMatchedBytes) return false;
  try {
    return std::regex_search(value, std::regex(pattern));
  } catch (const std::regex_error&) {
    return false;  // as containerd: what is no pattern matches nothing
  }
}

bool Holds(const Selector& selector, const SnapshotRecord& snapshot) {
  const std::optional<std::string> value = FieldOf(snapshot, selector.path);
  switch (selector.op) {
    case Selector::Operator::kPresent: return value.has_value();
    case Selector::Operator::kEqual: return value.has_value() && *value == selector.value;
    case Selector::Operator::kNotEqual: return value.value_or("") != selector.value;
    case Selector::Operator::kMatches: return MatchesPattern(selector.value, value.value_or(""));
  }
  return false;
}

}  // namespace

Result<SnapshotFilter> SnapshotFilter::Parse(const std::vector<std::string>& filters) {
  SnapshotFilter parsed;
  for (const std::string& filter : filters) {
    if (filter.empty()) return SnapshotFilter();
    ASSIGN_OR_RETURN(std::vector<Selector> selectors, FilterReader(filter).Read());
    parsed.alternatives_.push_back(std::move(selectors));
  }
  return parsed;
}

bool SnapshotFilter::Matches(const SnapshotRecord& snapshot) const {
  const auto all_hold = [&](const std::vector<Selector>& selectors) {
    return std::all_of(selectors.begin(), selectors.end(),
                       [&](const Selector& selector) { return Holds(selector, snapshot); });
  };
  return alternatives_.empty() || std::any_of(alternatives_.begin(), alternatives_.end(), all_hold);
}

}  // namespace paceline::snapshotter
