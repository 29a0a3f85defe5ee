#include "analysis/whatif/report_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "analysis/whatif/html.h"

namespace paceline::analysis {
namespace {

constexpr size_t kMaxStages = 8;
constexpr size_t kMaxWorkers = 32;
constexpr size_t kMaxTimelineRows = 400;

// Pixels of the drawing at its full size.
constexpr double kLeft = 92, kWidth = 944, kTop = 24;
constexpr double kCompute = 13, kTransfer = 6, kRow = 23, kBetweenStages = 10;
// What is narrower is not drawn, which bounds the size of a row.
constexpr double kNarrowest = 0.2;

struct Colour {
  const char* css;
  const char* name;
};
constexpr std::array<Colour, 5> kColours = {Colour{"forward", "forward"}, Colour{"backward", "backward"},
                                            Colour{"pipeline", "between stages"}, Colour{"data", "between ranks"},
                                            Colour{"other", "optimizer and the rest"}};

const Colour& ColourOf(OpType type) {
  if (type == OpType::kForwardCompute) return kColours[0];
  if (type == OpType::kBackwardCompute) return kColours[1];
  if (IsPeerToPeer(type)) return kColours[2];
  return kColours[IsCommunication(type) ? 3 : 4];
}

// Of `slowdown` per part: the slowest, the fastest, then evenly from slow to fast; `always` in any case. Ascending.
std::vector<int> Choose(const std::vector<double>& slowdown, size_t at_most, const std::vector<int>& always) {
  std::vector<int> order(slowdown.size());
  std::iota(order.begin(), order.end(), 0);
  if (order.size() <= at_most) return order;
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return slowdown[static_cast<size_t>(a)] > slowdown[static_cast<size_t>(b)]; });
  std::vector<int> chosen = {order.front()};
  const auto add = [&](int part) {
    if (chosen.size() < at_most && std::find(chosen.begin(), chosen.end(), part) == chosen.end())
      chosen.push_back(part);
  };
  for (const int part : always) add(part);
  add(order.back());
  const size_t between = at_most - std::min(at_most, chosen.size());
  for (size_t i = 1; i <= between; i++) add(order[i * (order.size() - 1) / (between + 1)]);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

class Drawing {
 public:
  Drawing(double seconds, double height) : seconds_(seconds), height_(height) {}

  // One worker, or one stage: computation above, transfers below.
  void AddRow(const std::string& name, const char* css, const std::vector<TimedOp>& ops) {
    svg_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{:.4g}\" text-anchor=\"end\">{}</text>", css, kLeft - 6,
                        y_ + kCompute - 2, EscapeHtml(name));
    svg_ += fmt::format("<rect class=\"lane\" x=\"{}\" y=\"{:.5g}\" width=\"{}\" height=\"{}\"/>\n", kLeft, y_, kWidth,
                        kCompute + kTransfer + 1);
    for (const TimedOp& op : ops) AddOp(op);
    y_ += kRow;
  }
  void AddGap() { y_ += kBetweenStages; }
  // A mark through all rows.
  void AddMark(double seconds, const std::string& text) {
    const double x = X(seconds);
    svg_ += fmt::format(
        "<path class=\"mark\" d=\"M{0:.6g} {1}V{2:.5g}\"/><text class=\"axis\" x=\"{3:.6g}\" y=\"{4}\" "
        "text-anchor=\"end\">{5}</text>\n",
        x, kTop - 4, height_ - 22, x - 3, kTop - 8, text);
  }

  std::string Finish() {
    const double every = seconds_ / 10;
    for (int i = 0; i <= 10; i++) {
      svg_ += fmt::format("<text x=\"{:.6g}\" y=\"{:.5g}\" text-anchor=\"middle\">{}</text>", X(i * every), height_ - 6,
                          SecondsText(i * every));
    }
    return std::move(svg_);
  }

 private:
  double X(double seconds) const { return kLeft + kWidth * seconds / seconds_; }

  void AddOp(const TimedOp& op) {
    const double x = X(op.start), width = X(op.end) - x;
    if (width < kNarrowest) return;
    const bool is_transfer = IsCommunication(op.type) && op.type != OpType::kClipMainGrad;
    svg_ += fmt::format(
        "<rect class=\"{}\" x=\"{:.6g}\" y=\"{:.5g}\" width=\"{:.4g}\" height=\"{}\"><title>{} {}: {} from "
        "{}</title></rect>\n",
        ColourOf(op.type).css, x, is_transfer ? y_ + kCompute + 1 : y_, std::max(width - 0.4, kNarrowest),
        is_transfer ? kTransfer : kCompute, NameOf(op.type), op.seq, SecondsText(op.end - op.start),
        SecondsText(op.start));
  }

  const double seconds_;
  const double height_;
  double y_ = kTop;
  std::string svg_;
};

struct StepOps {
  std::vector<std::vector<TimedOp>> measured;  // [stage][rank], in the order chosen
  std::vector<std::vector<TimedOp>> ideal;     // [stage]
  double seconds = 0;                          // until the last end
};

int PositionOf(const std::vector<int>& list, int value) {
  const auto found = std::lower_bound(list.begin(), list.end(), value);
  return found != list.end() && *found == value ? static_cast<int>(found - list.begin()) : -1;
}

StepOps TakeOps(const StepTrace& trace, const WhatIfModel& model, int64_t step, const TimelineChoice& choice) {
  StepOps ops;
  ops.measured.resize(choice.stages.size() * choice.dp_ranks.size());
  ops.ideal.resize(choice.stages.size());
  double first = std::numeric_limits<double>::infinity();
  for (size_t row = 0; row < trace.rows(); row++) {
    if (trace.step[row] == step) first = std::min<double>(first, trace.start[row]);
  }
  for (size_t row = 0; row < trace.rows(); row++) {
    if (trace.step[row] != step) continue;
    const double start = trace.start[row] - first, end = start + trace.duration[row];
    ops.seconds = std::max(ops.seconds, end);
    const int stage = PositionOf(choice.stages, trace.stage[row]);
    const int rank = PositionOf(choice.dp_ranks, trace.dp_rank[row]);
    if (stage < 0 || rank < 0) continue;
    ops.measured[static_cast<size_t>(stage) * choice.dp_ranks.size() + static_cast<size_t>(rank)].push_back(
        {trace.type[row], trace.dp_rank[row], trace.stage[row], trace.seq[row], start, end});
  }
  for (const TimedOp& op : IdealTimeline(model)) {
    ops.seconds = std::max(ops.seconds, op.end);
    const int stage = PositionOf(choice.stages, op.stage);
    if (stage >= 0) ops.ideal[static_cast<size_t>(stage)].push_back(op);
  }
  return ops;
}

std::string Legend() {
  std::string html = "<ul class=\"legend\" aria-label=\"Colours by kind of operation\">";
  for (const Colour& kind : kColours) {
    html += fmt::format(
        "<li><svg width=\"14\" height=\"14\" aria-hidden=\"true\"><rect class=\"{}\" width=\"14\" height=\"14\" "
        "rx=\"2\"/></svg>{}</li>",
        kind.css, kind.name);
  }
  return html + "</ul>\n";
}

std::string List(const std::vector<int>& numbers) { return fmt::format("{}", fmt::join(numbers, ", ")); }

std::string LeftOutNote(const WhatIfResult& result, const TimelineChoice& choice) {
  const size_t ranks = static_cast<size_t>(result.shape.dp_size), stages = static_cast<size_t>(result.shape.pp_size);
  if (choice.dp_ranks.size() == ranks && choice.stages.size() == stages) return "";
  return fmt::format(
      "<p class=\"note\">Drawn: {} of {} data-parallel ranks ({}) and {} of {} stages ({}). The others are left out to "
      "keep "
      "the page small; the Perfetto file has all of them.</p>\n",
      choice.dp_ranks.size(), ranks, List(choice.dp_ranks), choice.stages.size(), stages, List(choice.stages));
}

// Where each worker's time goes, in figures.
std::string BusyTable(const TimelineChoice& choice, const StepOps& ops) {
  HtmlTable table{"Seconds of computation in this step", {"worker", "forward", "backward", "last end"}, {}};
  const auto add = [&](std::string name, const std::vector<TimedOp>& list) {
    double forward = 0, backward = 0, last = 0;
    for (const TimedOp& op : list) {
      if (op.type == OpType::kForwardCompute) forward += op.end - op.start;
      if (op.type == OpType::kBackwardCompute) backward += op.end - op.start;
      last = std::max(last, op.end);
    }
    table.rows.push_back({std::move(name), fmt::format("{:.4f}", forward), fmt::format("{:.4f}", backward),
                          fmt::format("{:.4f}", last)});
  };
  for (size_t stage = 0; stage < choice.stages.size(); stage++) {
    for (size_t rank = 0; rank < choice.dp_ranks.size(); rank++) {
      add(fmt::format("dp {} stage {}", choice.dp_ranks[rank], choice.stages[stage]),
          ops.measured[stage * choice.dp_ranks.size() + rank]);
    }
    add(fmt::format("stage {}, ideal", choice.stages[stage]), ops.ideal[stage]);
  }
  return FoldedTable("Computation as a table", table, kMaxTimelineRows);
}

}  // namespace

TimelineChoice ChooseWorkers(const WhatIfResult& result) {
  const auto slowdown = [](const std::optional<Decomposition>& parts, int count) {
    return parts ? parts->ratio : std::vector<double>(static_cast<size_t>(count), 1.0);
  };
  TimelineChoice choice;
  choice.stages = Choose(slowdown(result.by_stage, result.shape.pp_size), kMaxStages, {0, result.shape.pp_size - 1});
  choice.dp_ranks = Choose(slowdown(result.by_dp_rank, result.shape.dp_size),
                           std::min<size_t>(8, kMaxWorkers / choice.stages.size()), {});
  return choice;
}

size_t SlowestStep(const WhatIfResult& result) {
  return static_cast<size_t>(std::max_element(result.measured.begin(), result.measured.end()) -
                             result.measured.begin());
}

std::string Timeline(const StepTrace& trace, const WhatIfModel& model, const WhatIfResult& result, size_t step) {
  const TimelineChoice choice = ChooseWorkers(result);
  const StepOps ops = TakeOps(trace, model, result.steps[step], choice);
  const auto stages = static_cast<double>(choice.stages.size());
  const double height = kTop + stages * (kRow * static_cast<double>(choice.dp_ranks.size() + 1) + kBetweenStages) + 24;
  Drawing drawing(std::max(ops.seconds, 1e-9), height);
  for (size_t stage = 0; stage < choice.stages.size(); stage++) {
    for (size_t rank = 0; rank < choice.dp_ranks.size(); rank++) {
      drawing.AddRow(fmt::format("dp {} stage {}", choice.dp_ranks[rank], choice.stages[stage]), "",
                     ops.measured[stage * choice.dp_ranks.size() + rank]);
    }
    drawing.AddRow("ideal", "axis", ops.ideal[stage]);
    drawing.AddGap();
  }
  drawing.AddMark(result.ideal, "ideal end");
  drawing.AddMark(result.measured[step], "measured end");
  return Legend() + LeftOutNote(result, choice) +
         fmt::format(
             "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Timeline\"><svg class=\"chart\" "
             "viewBox=\"0 0 {0:.6g} {1:.5g}\" style=\"width:{0:.6g}px;min-width:{0:.6g}px\" role=\"img\" "
             "aria-label=\"Timeline of step {2}: measured operations of each worker above the ideal of its stage; sums "
             "are in the table below\">\n{3}</svg></div>\n{4}",
             kLeft + kWidth + 28, height, result.steps[step], drawing.Finish(), BusyTable(choice, ops));
}

}  // namespace paceline::analysis
