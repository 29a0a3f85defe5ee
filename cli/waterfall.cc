#include "cli/waterfall.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/output.h"

namespace paceline::cli {

namespace {

constexpr int kMinBarColumns = 20;
// Background colours (256-colour codes) that stay apart for colour-blind readers and carry black letters.
constexpr int kColors[] = {250, 117, 222, 114, 216, 183, 153, 229};
constexpr size_t kColorCount = sizeof kColors / sizeof kColors[0];

struct Legend {
  std::vector<std::string> stages;  // in order of appearance
  std::map<std::string, char> letters;
};

// The first letter of the stage's name that no other stage has taken, so that "Checkpoint" beside "ContainerStart"
// still tells itself apart.
Legend MakeLegend(const std::vector<WaterfallRow>& rows) {
  Legend legend;
  std::string taken;
  for (const WaterfallRow& row : rows) {
    for (const WaterfallSegment& segment : row.segments) {
      if (legend.letters.count(segment.stage) != 0) continue;
      char letter = '*';
      for (char c : segment.stage) {
        const char upper = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
        if (std::isalpha(static_cast<unsigned char>(c)) != 0 && taken.find(upper) == std::string::npos) {
          letter = upper;
          break;
        }
      }
      taken += letter;
      legend.letters[segment.stage] = letter;
      legend.stages.push_back(segment.stage);
    }
  }
  return legend;
}

std::string Paint(const std::string& text, size_t index, const WaterfallStyle& style) {
  if (!style.use_color || text.empty()) return text;
  return fmt::format("\x1b[48;5;{};30m{}\x1b[0m", kColors[index % kColorCount], text);
}

// Column at which a time falls; shared edges of neighbouring stages fall on the same column.
int Column(double seconds, double total, int columns) {
  return static_cast<int>(std::lround(seconds / total * columns));
}

std::string RenderBar(const WaterfallRow& row, const Legend& legend, double total, int columns,
                      const WaterfallStyle& style) {
  std::string bar;
  int at = 0;
  for (const WaterfallSegment& segment : row.segments) {
    const int from = std::max(at, Column(segment.start_seconds, total, columns));
    const int to = std::max(from, Column(segment.end_seconds, total, columns));
    bar.append(from - at, ' ');
    const size_t index = std::find(legend.stages.begin(), legend.stages.end(), segment.stage) - legend.stages.begin();
    bar += Paint(std::string(to - from, legend.letters.at(segment.stage)), index, style);
    at = to;
  }
  if (!row.has_finished && at < columns) {
    bar += '>';
    ++at;
  }
  bar.append(std::max(0, columns - at), ' ');
  return bar;
}

// "0 s      2 s      4 s" with marks at round steps.
std::string RenderAxis(double total, int columns) {
  const double rough = total * 14 / columns;  // a mark needs about 14 columns
  const double magnitude = std::pow(10, std::floor(std::log10(rough)));
  double step = magnitude;
  for (double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = magnitude * factor;
    if (step >= rough) break;
  }
  std::string axis;
  for (double mark = 0; mark <= total; mark += step) {
    const size_t column = Column(mark, total, columns);
    const std::string text = fmt::format("{:g} s", mark);
    if (column < axis.size() || column + text.size() > static_cast<size_t>(columns) + 6) continue;
    axis.append(column - axis.size(), ' ');
    axis += text;
  }
  return axis;
}

}  // namespace

std::string RenderWaterfall(const std::vector<WaterfallRow>& rows, const WaterfallStyle& style) {
  if (rows.empty()) return "";
  size_t label_width = std::string_view("worker").size();
  size_t node_width = std::string_view("node").size();
  double total = 0;
  for (const WaterfallRow& row : rows) {
    label_width = std::max(label_width, DisplayWidth(row.label));
    node_width = std::max(node_width, DisplayWidth(row.node));
    for (const WaterfallSegment& segment : row.segments) total = std::max(total, segment.end_seconds);
  }
  if (total <= 0) total = 1;  // nothing has taken any time yet
  const int columns = std::max(kMinBarColumns, style.width - static_cast<int>(label_width + node_width) - 16);
  const Legend legend = MakeLegend(rows);

  std::string out =
      fmt::format("{:<{}}  {:<{}}  {}\n", "worker", label_width, "node", node_width, RenderAxis(total, columns));
  for (const WaterfallRow& row : rows) {
    const double end = row.segments.empty() ? 0 : row.segments.back().end_seconds;
    out += fmt::format("{:>{}}  {:<{}}  {}  {}{}\n", row.label, label_width, row.node, node_width,
                       RenderBar(row, legend, total, columns, style), FormatSeconds(end),
                       row.has_finished ? "" : " so far");
  }
  out += "\n";
  for (size_t i = 0; i < legend.stages.size(); ++i) {
    const std::string& stage = legend.stages[i];
    out +=
        fmt::format("{}{} {}", i == 0 ? "" : "   ", Paint(std::string(1, legend.letters.at(stage)), i, style), stage);
  }
  return out + "\n";
}

}  // namespace paceline::cli
