#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "lib/base/check.h"
#include "lib/base/config.h"
#include "lib/base/log_format.h"

namespace paceline {

namespace {

bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }

// "leaderElection.leaseDuration" -> "leader-election-lease-duration"; a run of capitals is one word: "apiURL" ->
// "api-url".
std::string FlagName(const std::string& key) {
  std::string flag;
  for (size_t i = 0; i < key.size(); ++i) {
    const char c = key[i];
    if (c == '.') {
      flag += '-';
    } else if (IsUpper(c)) {
      const bool starts_word =
          i > 0 && key[i - 1] != '.' && (!IsUpper(key[i - 1]) || (i + 1 < key.size() && std::islower(key[i + 1]) != 0));
      if (starts_word) flag += '-';
      flag += static_cast<char>(std::tolower(c));
    } else {
      flag += c;
    }
  }
  return flag;
}

std::string Join(const std::vector<std::string>& words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

template <typename Number>
bool ParseNumber(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

ConfigField::ConfigField(std::string key, Target target, std::string doc)
    : key_(std::move(key)), flag_(FlagName(key_)), target_(target), doc_(std::move(doc)) {}

ConfigField& ConfigField::Env(std::string variable) {
  env_ = std::move(variable);
  return *this;
}

ConfigField& ConfigField::Secret() {
  is_secret_ = true;
  return *this;
}

ConfigField& ConfigField::OneOf(std::vector<std::string> words) {
  CHECK(is_list() || std::holds_alternative<std::string*>(target_));
  words_ = std::move(words);
  return *this;
}

ConfigField& ConfigField::Range(double low, double high) {
  CHECK(std::holds_alternative<int*>(target_) || std::holds_alternative<int64_t*>(target_) ||
        std::holds_alternative<double*>(target_));
  low_ = low;
  high_ = high;
  return *this;
}

ConfigField& ConfigField::Positive() {
  CHECK(!is_list() && !is_bool() && !std::holds_alternative<std::string*>(target_));
  is_positive_ = true;
  return *this;
}

const char* ConfigField::type_name() const {
  struct Visitor {
    const char* operator()(std::string*) const { return "TEXT"; }
    const char* operator()(bool*) const { return "true|false"; }
    const char* operator()(int*) const { return "NUMBER"; }
    const char* operator()(int64_t*) const { return "NUMBER"; }
    const char* operator()(double*) const { return "NUMBER"; }
    const char* operator()(Duration*) const { return "DURATION"; }
    const char* operator()(ByteSize*) const { return "SIZE"; }
    const char* operator()(std::vector<std::string>*) const { return "TEXT,..."; }
    const char* operator()(LogLevel*) const { return "LEVEL"; }
    const char* operator()(LogFormat*) const { return "FORMAT"; }
  };
  return std::visit(Visitor(), target_);
}

Status ConfigField::Set(const std::vector<std::string>& values, Source source) {
  if (is_list()) {
    for (const std::string& value : values) RETURN_IF_ERROR(CheckWord(value));
    *std::get<std::vector<std::string>*>(target_) = values;
  } else {
    CHECK(values.size() == 1);
    Status status = SetScalar(values[0]);
    if (!status.ok())
      return is_secret_ ? InvalidArgumentError("the value (not shown, it is secret) is malformed") : status;
  }
  source_ = source;
  return Status();
}

Status ConfigField::SetScalar(const std::string& text) {
  const auto set_number = [&](auto* target, const char* what) {
    std::remove_pointer_t<decltype(target)> number{};
    if (!ParseNumber(text, number) || !std::isfinite(static_cast<double>(number))) {
      return InvalidArgumentError(fmt::format("\"{}\" is not {}", text, what));
    }
    RETURN_IF_ERROR(CheckBounds(static_cast<double>(number)));
    *target = number;
    return Status();
  };
  if (auto* target = std::get_if<std::string*>(&target_)) {
    RETURN_IF_ERROR(CheckWord(text));
    **target = text;
    return Status();
  }
  if (auto* target = std::get_if<bool*>(&target_)) {
    if (text != "true" && text != "false") {
      return InvalidArgumentError(fmt::format("\"{}\" is not a switch; write true or false", text));
    }
    **target = text == "true";
    return Status();
  }
  if (auto* target = std::get_if<int*>(&target_)) return set_number(*target, "a whole number of at most 32 bits");
  if (auto* target = std::get_if<int64_t*>(&target_)) return set_number(*target, "a whole number of at most 64 bits");
  if (auto* target = std::get_if<double*>(&target_)) return set_number(*target, "a number");
  if (auto* target = std::get_if<Duration*>(&target_)) {
    ASSIGN_OR_RETURN(const Duration duration, ParseDuration(text));
    RETURN_IF_ERROR(CheckBounds(static_cast<double>(duration.count())));
    **target = duration;
    return Status();
  }
  if (auto* target = std::get_if<ByteSize*>(&target_)) {
    ASSIGN_OR_RETURN(const ByteSize size, ParseByteSize(text));
    RETURN_IF_ERROR(CheckBounds(static_cast<double>(size.bytes)));
    **target = size;
    return Status();
  }
  if (auto* target = std::get_if<LogLevel*>(&target_)) return ParseLogLevel(text, *target);
  return ParseLogFormat(text, std::get<LogFormat*>(target_));
}

Status ConfigField::CheckBounds(double number) const {
  if (is_positive_ && number <= 0) return InvalidArgumentError("the value must be more than zero");
  if ((low_ && number < *low_) || (high_ && number > *high_)) {
    return InvalidArgumentError(fmt::format("{} is out of range; use {} to {}", number, *low_, *high_));
  }
  return Status();
}

Status ConfigField::CheckWord(const std::string& text) const {
  if (words_.empty() || std::find(words_.begin(), words_.end(), text) != words_.end()) return Status();
  return InvalidArgumentError(fmt::format("\"{}\" is not known here; use one of: {}", text, Join(words_, ", ")));
}

std::vector<std::string> ConfigField::Get() const {
  struct Visitor {
    std::string operator()(const std::string* value) const { return *value; }
    std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
    std::string operator()(const int* value) const { return std::to_string(*value); }
    std::string operator()(const int64_t* value) const { return std::to_string(*value); }
    std::string operator()(const double* value) const { return fmt::format("{}", *value); }
    std::string operator()(const Duration* value) const { return FormatDuration(*value); }
    std::string operator()(const ByteSize* value) const { return FormatByteSize(*value); }
    std::string operator()(const std::vector<std::string>*) const { return ""; }
    std::string operator()(const LogLevel* value) const { return std::string(LogLevelName(*value)); }
    std::string operator()(const LogFormat* value) const { return *value == LogFormat::kJson ? "json" : "text"; }
  };
  if (is_list()) return *std::get<std::vector<std::string>*>(target_);
  return {std::visit(Visitor(), target_)};
}

std::string ConfigField::Show() const {
  const std::vector<std::string> values = Get();
  if (is_secret_) return values.empty() || values[0].empty() ? "" : "***";
  if (is_list()) return "[" + Join(values, ", ") + "]";
  return values[0];
}

}  // namespace paceline
