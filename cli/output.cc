#include "cli/output.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/error_advice.h"

namespace paceline::cli {

using Json = nlohmann::json;

int Fail(const Status& status) {
  fmt::print(stderr, "{}", RenderError(status));
  return 1;
}

Result<OutputFormat> ParseOutputFormat(std::string_view text) {
  if (text == "table" || text.empty()) return OutputFormat::kTable;
  if (text == "json") return OutputFormat::kJson;
  if (text == "yaml") return OutputFormat::kYaml;
  return InvalidArgumentError(fmt::format("--output must be table, json or yaml, not \"{}\"", text));
}

size_t DisplayWidth(std::string_view text) {
  // Continuation bytes of UTF-8 look like 10xxxxxx and take no column of their own.
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::string RenderTable(const Table& table) {
  std::vector<size_t> widths;
  for (const std::string& header : table.headers) widths.push_back(DisplayWidth(header));
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  std::string out;
  auto append_row = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::string cell = i < cells.size() && !cells[i].empty() ? cells[i] : "-";
      line += cell;
      if (i + 1 < widths.size()) line.append(widths[i] - std::min(widths[i], DisplayWidth(cell)) + 2, ' ');
    }
    out += line + "\n";
  };
  append_row(table.headers);
  for (const auto& row : table.rows) append_row(row);
  return out;
}

namespace {

void EmitYaml(YAML::Emitter& out, const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      out << (value.empty() ? YAML::Flow : YAML::Block) << YAML::BeginMap;
      for (const auto& [key, member] : value.items()) {
        out << YAML::Key << key << YAML::Value;
        EmitYaml(out, member);
      }
      out << YAML::EndMap;
      break;
    case Json::value_t::array:
      out << (value.empty() ? YAML::Flow : YAML::Block) << YAML::BeginSeq;
      for (const Json& item : value) EmitYaml(out, item);
      out << YAML::EndSeq;
      break;
    case Json::value_t::string:
      // Always quoted: "1", "true" and "2026-01-02" must come back as strings from every YAML reader.
      out << YAML::DoubleQuoted << value.get_ref<const std::string&>();
      break;
    case Json::value_t::null: out << YAML::Null; break;
    default: out << value.dump(); break;
  }
}

}  // namespace

std::string RenderValue(const Json& value, OutputFormat format) {
  if (format == OutputFormat::kYaml) {
    YAML::Emitter out;
    EmitYaml(out, value);
    return std::string(out.c_str()) + "\n";
  }
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string FormatSeconds(double seconds) {
  if (seconds < 10) return fmt::format("{:.2f} s", seconds);
  if (seconds < 99.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  return fmt::format("{}h {:02}m {:02}s", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace paceline::cli
