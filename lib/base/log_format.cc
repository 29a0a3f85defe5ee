#include "lib/base/log_format.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/utf8.h"

namespace paceline {

namespace {

constexpr std::string_view kReservedKeys[] = {"time", "level", "program", "message"};

void AppendEscaped(std::string_view text, std::string& out) {
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    if (length == 0) {
      out += "\xef\xbf\xbd";
      text.remove_prefix(1);
      continue;
    }
    const char c = text[0];
    if (length > 1) {
      out += text.substr(0, length);
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
    text.remove_prefix(length);
  }
}

bool IsPlain(std::string_view value) {
  if (value.empty()) return false;
  return std::all_of(value.begin(), value.end(),
                     [](char c) { return c > 0x20 && c < 0x7f && c != '"' && c != '=' && c != '\\'; });
}

// What std::to_chars and friends may give for a double that JSON has no number for.
bool IsJsonBare(const LogField& field) {
  if (!field.is_bare) return false;
  return field.value == "true" || field.value == "false" ||
         field.value.find_first_not_of("+-.0123456789e") == std::string::npos;
}

}  // namespace

std::string_view LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug";
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarn: return "warn";
    case LogLevel::kError: return "error";
  }
  return "unknown";
}

std::string QuoteJson(std::string_view text) {
  std::string quoted = "\"";
  AppendEscaped(text, quoted);
  quoted += '"';
  return quoted;
}

std::string FormatLogText(std::string_view message, const std::vector<LogField>& fields) {
  std::string line;
  AppendEscaped(message, line);
  for (const LogField& field : fields) {
    line += ' ';
    line += IsPlain(field.key) ? std::string(field.key) : QuoteJson(field.key);
    line += '=';
    line += IsPlain(field.value) ? field.value : QuoteJson(field.value);
  }
  return line;
}

std::string FormatLogJson(std::string_view message, const std::vector<LogField>& fields) {
  std::string line = "\"message\":" + QuoteJson(message);
  for (const LogField& field : fields) {
    const bool is_reserved =
        std::find(std::begin(kReservedKeys), std::end(kReservedKeys), field.key) != std::end(kReservedKeys);
    line += ',';
    line += QuoteJson(is_reserved ? std::string(field.key) + "_" : std::string(field.key));
    line += ':';
    line += IsJsonBare(field) ? field.value : QuoteJson(field.value);
  }
  return line;
}

}  // namespace paceline
