// Pieces of HTML and SVG that the parts of the report share: escaped text, numbers for people, folded tables.
//
// Called by report.cc, report_charts.cc and report_timeline.cc only. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paceline::analysis {

// `text` as text or attribute value: the five special characters as references, control characters and bytes that are
// no UTF-8 as U+FFFD. Everything that comes from a trace goes through here.
std::string EscapeHtml(std::string_view text);

// "1.973": four figures are all that a person compares.
std::string RatioText(double ratio);
// "49.3 %".
std::string PercentText(double share);
// "812 ms", "4.31 s".
std::string SecondsText(double seconds);

struct HtmlTable {
  std::string caption;                         // for screen readers and as the table's name; plain text
  std::vector<std::string> headers;            // plain text
  std::vector<std::vector<std::string>> rows;  // plain text; the first cell names its row
};

// A table folded away under `title`, with at most `max_rows` rows; how many more there are is said below it.
std::string FoldedTable(std::string_view title, const HtmlTable& table, size_t max_rows);

}  // namespace paceline::analysis
