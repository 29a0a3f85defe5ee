// How pacectl prints: one table writer for people, JSON and YAML for programs. Pure; called by every command.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::cli {

// Exit code when what was looked at is wrong; 1 is for what could not be looked at.
inline constexpr int kExitBroken = 3;
// How often long work shows how far it is.
inline constexpr Duration kProgressPeriod = std::chrono::milliseconds(200);

enum class OutputFormat { kTable, kJson, kYaml };

// Says on standard error why a command did not work; the exit code for it, 1.
int Fail(const Status& status);

// "table", "json", "yaml"; kInvalidArgument names them.
Result<OutputFormat> ParseOutputFormat(std::string_view text);

struct Table {
  std::vector<std::string> headers;            // "NAME", "PHASE"
  std::vector<std::vector<std::string>> rows;  // as many cells as headers; an empty cell prints "-"
};

// Columns as wide as their widest cell (in characters, not bytes), two spaces between, a newline after each row.
std::string RenderTable(const Table& table);

// The value as JSON (indented by two) or as YAML that parses back to the same value. Ends with a newline.
std::string RenderValue(const nlohmann::json& value, OutputFormat format);

// "0.12 s", "14.3 s", "2m 05s", "1h 02m 05s": three figures are all that a person compares.
std::string FormatSeconds(double seconds);

// Number of characters that a terminal shows for UTF-8 `text` (one column a code point; good enough for names).
size_t DisplayWidth(std::string_view text);

}  // namespace paceline::cli
