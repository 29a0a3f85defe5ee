#include "analysis/whatif/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace paceline::analysis {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Bytes of the UTF-8 sequence at the start of `text`; 0 when it is none (overlong forms and surrogates among them).
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0x80 ? 1 : lead >= 0xC2 && lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (lead >= 0x80 && lead < 0xC2) return 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; i++) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;
  if (lead == 0xED && byte(1) >= 0xA0) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) >= 0x90) return 0;
  return length;
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const char first = text.front();
    if (length == 0 || (length == 1 && (static_cast<unsigned char>(first) < 0x20 || first == 0x7F) && first != '\n')) {
      escaped += kReplacement;
      text.remove_prefix(1);
      continue;
    }
    switch (first) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      default: escaped += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return escaped;
}

std::string RatioText(double ratio) { return fmt::format("{:.3f}", ratio); }

std::string PercentText(double share) {
  const double percent = share * 100;
  return fmt::format("{:.1f} %", std::abs(percent) < 0.05 ? 0.0 : percent);
}

std::string SecondsText(double seconds) {
  if (std::abs(seconds) < 1) return fmt::format("{:.3g} ms", seconds * 1000);
  return fmt::format("{:.3g} s", seconds);
}

std::string FoldedTable(std::string_view title, const HtmlTable& table, size_t max_rows) {
  std::string html = fmt::format(
      "<details><summary>{}</summary><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table>"
      "<caption>{}</caption><thead><tr>",
      EscapeHtml(title), EscapeHtml(table.caption), EscapeHtml(table.caption));
  for (const std::string& header : table.headers) html += fmt::format("<th scope=\"col\">{}</th>", EscapeHtml(header));
  html += "</tr></thead><tbody>\n";
  const size_t shown = std::min(max_rows, table.rows.size());
  for (size_t row = 0; row < shown; row++) {
    html += "<tr>";
    for (size_t cell = 0; cell < table.rows[row].size(); cell++) {
      const std::string text = EscapeHtml(table.rows[row][cell]);
      html += cell == 0 ? "<th scope=\"row\">" + text + "</th>" : "<td>" + text + "</td>";
    }
    html += "</tr>\n";
  }
  html += "</tbody></table></div>";
  if (shown < table.rows.size()) {
    html += fmt::format("<p class=\"note\">{} more rows are not shown; the JSON result has them all.</p>",
                        table.rows.size() - shown);
  }
  return html + "</details>\n";
}

}  // namespace paceline::analysis
