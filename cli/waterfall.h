// Draws the startup of a run as text: one bar per worker, one letter per stage, on a common time axis. Pure; called by
// `pacectl run explain`.
#pragma once

#include <string>
#include <vector>

namespace paceline::cli {

struct WaterfallSegment {
  std::string stage;     // "Image"; stages get their letter and colour in order of first appearance
  double start_seconds;  // since the job was created
  double end_seconds;    // >= start
};

struct WaterfallRow {
  std::string label;  // "0"
  std::string node;
  std::vector<WaterfallSegment> segments;  // contiguous, in time order
  bool has_finished = true;                // false: the last stage is still going on, drawn with an open end
};

struct WaterfallStyle {
  int width = 100;  // columns of the terminal
  bool use_color = false;
};

// The chart with its axis and a legend that explains the letters. Rows in the order given. An empty list gives "".
std::string RenderWaterfall(const std::vector<WaterfallRow>& rows, const WaterfallStyle& style);

}  // namespace paceline::cli
