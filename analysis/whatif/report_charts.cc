#include "analysis/whatif/report_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "analysis/whatif/html.h"

namespace paceline::analysis {
namespace {

constexpr size_t kMaxColumns = 256;
constexpr size_t kMaxRows = 64;
constexpr size_t kMaxTableRows = 1024;

// From these slowdowns on a cell takes the next colour: the same in every report, so that two can be compared.
constexpr std::array<double, 7> kHeatFrom = {1.03, 1.06, 1.1, 1.2, 1.4, 1.7, 2.5};

size_t HeatOf(double slowdown) {
  return static_cast<size_t>(std::upper_bound(kHeatFrom.begin(), kHeatFrom.end(), slowdown) - kHeatFrom.begin());
}

std::string HeatLegend() {
  std::string html = "<ul class=\"legend\" aria-label=\"Colours by slowdown\">";
  for (size_t heat = 0; heat <= kHeatFrom.size(); heat++) {
    const std::string range = heat == 0 ? fmt::format("below {:.2f}", kHeatFrom.front())
                              : heat == kHeatFrom.size()
                                  ? fmt::format("{:.2f} and more", kHeatFrom.back())
                                  : fmt::format("{:.2f}–{:.2f}", kHeatFrom[heat - 1], kHeatFrom[heat]);
    html += fmt::format(
        "<li><svg width=\"14\" height=\"14\" aria-hidden=\"true\"><rect class=\"h{}\" width=\"14\" height=\"14\" "
        "rx=\"2\"/></svg>{}</li>",
        heat, range);
  }
  return html + "</ul>\n";
}

// Workers in blocks of `per_cell` neighbours: the largest value and whose it is.
struct Block {
  double slowdown = 0;
  size_t dp_rank = 0;
  size_t stage = 0;
};

struct HeatGrid {
  size_t columns = 0, rows = 0;
  size_t ranks_per_cell = 1, stages_per_cell = 1;
  std::vector<Block> blocks;  // [row][column]
};

HeatGrid MakeGrid(const std::vector<std::vector<double>>& slowdown) {
  const size_t ranks = slowdown.size(), stages = slowdown.front().size();
  HeatGrid grid;
  grid.ranks_per_cell = (ranks + kMaxColumns - 1) / kMaxColumns;
  grid.stages_per_cell = (stages + kMaxRows - 1) / kMaxRows;
  grid.columns = (ranks + grid.ranks_per_cell - 1) / grid.ranks_per_cell;
  grid.rows = (stages + grid.stages_per_cell - 1) / grid.stages_per_cell;
  grid.blocks.resize(grid.columns * grid.rows);
  for (size_t rank = 0; rank < ranks; rank++) {
    for (size_t stage = 0; stage < stages; stage++) {
      Block& block = grid.blocks[stage / grid.stages_per_cell * grid.columns + rank / grid.ranks_per_cell];
      if (slowdown[rank][stage] > block.slowdown) block = {slowdown[rank][stage], rank, stage};
    }
  }
  return grid;
}

// Every so many columns or rows get a number.
size_t LabelEvery(size_t count, double pixels_each, double pixels_per_label) {
  for (size_t power = 1; power < count; power *= 10) {
    for (const size_t factor : {1, 2, 5}) {
      if (static_cast<double>(factor * power) * pixels_each >= pixels_per_label) return factor * power;
    }
  }
  return count;
}

std::string HeatCells(const HeatGrid& grid, double width, double height, double left, double top) {
  std::string svg;
  const double gap = width >= 10 ? 1.5 : width >= 5 ? 0.5 : 0;
  for (size_t row = 0; row < grid.rows; row++) {
    for (size_t column = 0; column < grid.columns; column++) {
      const Block& block = grid.blocks[row * grid.columns + column];
      const double x = left + static_cast<double>(column) * width, y = top + static_cast<double>(row) * height;
      const size_t heat = HeatOf(block.slowdown);
      svg += fmt::format(
          "<g><title>dp {} stage {}: {:.3f}</title><rect class=\"h{}\" x=\"{:.4g}\" y=\"{:.4g}\" width=\"{:.4g}\" "
          "height=\"{:.4g}\"/>",
          block.dp_rank, block.stage, block.slowdown, heat, x, y, width - gap, height - std::min(gap, height / 4));
      if (width >= 44 && height >= 20) {
        svg += fmt::format("<text class=\"t{}\" x=\"{:.4g}\" y=\"{:.4g}\" text-anchor=\"middle\">{:.2f}</text>", heat,
                           x + (width - gap) / 2, y + height / 2 + 4, block.slowdown);
      }
      svg += "</g>\n";
    }
  }
  return svg;
}

std::string HeatAxes(const HeatGrid& grid, double width, double height, double left, double top) {
  std::string svg;
  const size_t every = LabelEvery(grid.columns, width, 30);
  for (size_t column = 0; column < grid.columns; column += every) {
    svg += fmt::format("<text x=\"{:.4g}\" y=\"{:.4g}\" text-anchor=\"middle\">{}</text>",
                       left + (static_cast<double>(column) + 0.5) * width, top - 6, column * grid.ranks_per_cell);
  }
  const size_t every_row = LabelEvery(grid.rows, height, 14);
  for (size_t row = 0; row < grid.rows; row += every_row) {
    svg += fmt::format("<text x=\"{:.4g}\" y=\"{:.4g}\" text-anchor=\"end\">{}</text>", left - 6,
                       top + (static_cast<double>(row) + 0.5) * height + 4, row * grid.stages_per_cell);
  }
  svg += fmt::format("<text class=\"axis\" x=\"{:.4g}\" y=\"12\">data-parallel rank →</text>", left);
  svg += fmt::format(
      "<text class=\"axis\" transform=\"translate(12 {:.4g}) rotate(-90)\" text-anchor=\"end\">← stage</text>", top);
  return svg;
}

// Slowest first.
HtmlTable WorkerTable(const WhatIfResult& result) {
  HtmlTable table{"Slowdown of each worker, slowest first", {"dp rank", "stage", "slowdown"}, {}};
  std::vector<Block> workers;
  for (size_t rank = 0; rank < result.worker_slowdown.size(); rank++) {
    for (size_t stage = 0; stage < result.worker_slowdown[rank].size(); stage++) {
      workers.push_back({result.worker_slowdown[rank][stage], rank, stage});
    }
  }
  std::stable_sort(workers.begin(), workers.end(),
                   [](const Block& a, const Block& b) { return a.slowdown > b.slowdown; });
  for (const Block& worker : workers) {
    table.rows.push_back(
        {std::to_string(worker.dp_rank), std::to_string(worker.stage), fmt::format("{:.4f}", worker.slowdown)});
  }
  return table;
}

// ---- step series

struct SeriesScale {
  double left = 56, top = 12, width = 990, height = 220;
  double top_seconds = 1;
  size_t steps = 1;
  double X(size_t step) const {
    return left + (steps == 1 ? width / 2 : width * static_cast<double>(step) / static_cast<double>(steps - 1));
  }
  double Y(double seconds) const { return top + height * (1 - seconds / top_seconds); }
};

// 1, 2 or 5 times a power of ten, so that `range` has four to ten of them.
double NiceStep(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / 4)));
  for (const double factor : {5.0, 2.0}) {
    if (range / (factor * power) >= 4) return factor * power;
  }
  return power;
}

std::string SeriesLine(const SeriesScale& scale, const std::vector<int64_t>& steps, const std::vector<double>& seconds,
                       const char* name) {
  std::string path, dots;
  const bool has_dots = steps.size() <= 200;
  for (size_t i = 0; i < steps.size(); i++) {
    // Steps that were not sampled leave a gap.
    const bool is_joined = i > 0 && steps[i] == steps[i - 1] + 1;
    // Without length, but with round ends: a dot.
    path +=
        fmt::format("{}{:.5g} {:.5g}{}", is_joined ? 'L' : 'M', scale.X(i), scale.Y(seconds[i]), is_joined ? "" : "h0");
    if (!has_dots) continue;
    dots += fmt::format("<circle class=\"{}\" cx=\"{:.5g}\" cy=\"{:.5g}\" r=\"3\"><title>step {}: {}</title></circle>",
                        name, scale.X(i), scale.Y(seconds[i]), steps[i], SecondsText(seconds[i]));
  }
  return fmt::format("<path class=\"line {}\" d=\"{}\"/>\n{}\n", name, path, dots);
}

std::string SeriesAxes(const SeriesScale& scale, const std::vector<int64_t>& steps) {
  std::string svg;
  const double every = NiceStep(scale.top_seconds);
  for (double seconds = 0; seconds <= scale.top_seconds * 1.0001; seconds += every) {
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{:.5g} {:.5g}h{:.5g}\"/><text x=\"{:.5g}\" y=\"{:.5g}\" "
        "text-anchor=\"end\">{}</text>",
        scale.left, scale.Y(seconds), scale.width, scale.left - 6, scale.Y(seconds) + 4, SecondsText(seconds));
  }
  const size_t label_every = std::max<size_t>(1, (steps.size() + 15) / 16);
  for (size_t i = 0; i < steps.size(); i += label_every) {
    svg += fmt::format("<text x=\"{:.5g}\" y=\"{:.5g}\" text-anchor=\"middle\">{}</text>", scale.X(i),
                       scale.top + scale.height + 18, steps[i]);
  }
  return svg + fmt::format("<text class=\"axis\" x=\"{:.5g}\" y=\"{:.5g}\" text-anchor=\"end\">step</text>\n",
                           scale.left + scale.width, scale.top + scale.height + 34);
}

HtmlTable StepTable(const WhatIfResult& result) {
  HtmlTable table{"Seconds of each step", {"step", "measured", "simulated", "ideal", "slowdown"}, {}};
  for (size_t i = 0; i < result.steps.size(); i++) {
    table.rows.push_back({std::to_string(result.steps[i]), fmt::format("{:.4f}", result.measured[i]),
                          fmt::format("{:.4f}", result.simulated[i]), fmt::format("{:.4f}", result.ideal),
                          fmt::format("{:.4f}", result.simulated[i] / result.ideal)});
  }
  return table;
}

}  // namespace

std::string HeatMap(const WhatIfResult& result) {
  if (result.worker_slowdown.empty() || result.worker_slowdown.front().empty()) return "";
  const HeatGrid grid = MakeGrid(result.worker_slowdown);
  constexpr double kLeft = 52, kTop = 36;
  const double width = std::clamp(1000.0 / static_cast<double>(grid.columns), 3.4, 72.0);
  const double height = std::clamp(420.0 / static_cast<double>(grid.rows), 8.0, std::clamp(width, 16.0, 40.0));
  const double total_width = kLeft + width * static_cast<double>(grid.columns) + 8;
  const double total_height = kTop + height * static_cast<double>(grid.rows) + 4;
  std::string html = HeatLegend();
  html += fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Heat map of the workers\"><svg "
      "class=\"chart\" "
      "viewBox=\"0 0 {0:.4g} {1:.4g}\" style=\"width:{0:.4g}px;min-width:{2:.4g}px\" role=\"img\" "
      "aria-label=\"Slowdown "
      "of {3} data-parallel ranks by {4} stages; the values are in the table below\">\n",
      std::max(total_width, 190.0), total_height, std::min(std::max(total_width, 190.0), 420.0),
      result.worker_slowdown.size(), result.worker_slowdown.front().size());
  html += HeatAxes(grid, width, height, kLeft, kTop);
  html += HeatCells(grid, width, height, kLeft, kTop);
  html += "</svg></div>\n";
  if (grid.ranks_per_cell * grid.stages_per_cell > 1) {
    html += fmt::format(
        "<p class=\"note\">Each cell stands for {} ranks by {} stages and has the colour of the slowest in it.</p>\n",
        grid.ranks_per_cell, grid.stages_per_cell);
  }
  return html + FoldedTable("Workers as a table", WorkerTable(result), kMaxTableRows);
}

std::string PartBars(const std::string& caption, const Decomposition& parts, double largest, size_t max_rows) {
  std::vector<size_t> order(parts.parts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return parts.ratio[a] > parts.ratio[b]; });
  const size_t shown = std::min(max_rows, order.size());
  std::string html = fmt::format(
      "<table class=\"bars\"><caption>{}</caption><thead class=\"unseen\"><tr><th scope=\"col\">part</th><th "
      "scope=\"col\">bar</th><th scope=\"col\">slowdown</th></tr></thead><tbody>\n",
      EscapeHtml(caption));
  for (size_t i = 0; i < shown; i++) {
    const double ratio = parts.ratio[order[i]];
    const double share = largest > 1 ? std::clamp((ratio - 1) / (largest - 1), 0.0, 1.0) : 0;
    html += fmt::format(
        "<tr><th scope=\"row\">{}</th><td class=\"bar\"><svg viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" "
        "aria-hidden=\"true\"><rect class=\"rest\" width=\"100\" height=\"10\"/><rect class=\"h{}\" width=\"{:.4g}\" "
        "height=\"10\"/></svg></td><td>{}</td></tr>\n",
        EscapeHtml(parts.parts[order[i]]), std::max<size_t>(HeatOf(ratio), 1), share * 100, RatioText(ratio));
  }
  html += "</tbody></table>\n";
  if (shown == order.size()) return html;
  HtmlTable rest{caption + ", all", {"part", "slowdown"}, {}};
  for (const size_t part : order) rest.rows.push_back({parts.parts[part], fmt::format("{:.4f}", parts.ratio[part])});
  return html + FoldedTable(fmt::format("All {}", order.size()), rest, kMaxTableRows);
}

std::string StepSeries(const WhatIfResult& result) {
  SeriesScale scale;
  scale.steps = result.steps.size();
  scale.top_seconds = result.ideal;
  for (const double seconds : result.measured) scale.top_seconds = std::max(scale.top_seconds, seconds);
  for (const double seconds : result.simulated) scale.top_seconds = std::max(scale.top_seconds, seconds);
  scale.top_seconds *= 1.05;
  std::string html =
      "<ul class=\"legend\"><li><svg width=\"28\" height=\"12\" aria-hidden=\"true\"><path class=\"line measured\" "
      "d=\"M1 6h26\"/></svg>measured</li><li><svg width=\"28\" height=\"12\" aria-hidden=\"true\"><path class=\"line "
      "simulated\" d=\"M1 6h26\"/></svg>simulated, without gaps</li><li><svg width=\"28\" height=\"12\" "
      "aria-hidden=\"true\"><path class=\"line ideal\" d=\"M1 6h26\"/></svg>without stragglers</li></ul>\n";
  html += fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Step series\"><svg class=\"chart\" "
      "viewBox=\"0 "
      "0 1064 280\" style=\"width:1064px;min-width:620px\" role=\"img\" aria-label=\"Seconds of {} steps: measured, "
      "simulated and ideal; the values are in the table below\">\n",
      result.steps.size());
  html += SeriesAxes(scale, result.steps);
  html += fmt::format("<path class=\"line ideal\" d=\"M{:.5g} {:.5g}h{:.5g}\"/>\n", scale.left, scale.Y(result.ideal),
                      scale.width);
  html += SeriesLine(scale, result.steps, result.measured, "measured");
  html += SeriesLine(scale, result.steps, result.simulated, "simulated");
  html += "</svg></div>\n";
  return html + FoldedTable("Steps as a table", StepTable(result), kMaxTableRows);
}

}  // namespace paceline::analysis
