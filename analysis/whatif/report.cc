#include "analysis/whatif/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "analysis/whatif/html.h"
#include "analysis/whatif/mean.h"
#include "analysis/whatif/report_charts.h"
#include "analysis/whatif/report_style.h"
#include "analysis/whatif/report_timeline.h"

namespace paceline::analysis {
namespace {

constexpr size_t kBarsPerPart = 12;
constexpr double kModelTooFar = 0.05;  // the study leaves traces out from this error on

std::string JobName(const WhatIfResult& result) {
  return result.shape.trial_name.empty() ? "job" : result.shape.trial_name;
}

std::string Head(const WhatIfResult& result) {
  // Nothing is loaded, from anywhere; the empty icon keeps browsers from asking for one.
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" "
      "href=\"data:,\">\n<title>What stragglers cost {}</title>\n<style>{}</style></head>\n<body><main>\n",
      EscapeHtml(JobName(result)), kReportStyle);
}

std::string Lead(const WhatIfResult& result) {
  const JobShape& shape = result.shape;
  const double lost = Mean(result.simulated) - result.ideal;
  std::string html =
      fmt::format("<header><h1>What stragglers cost {}</h1>\n<p class=\"lead\">", EscapeHtml(JobName(result)));
  if (result.by_type) {
    html += fmt::format(
        "The job took <strong>{} times</strong> as long as it would have without stragglers: <strong>{}</strong> of "
        "its "
        "time was lost. A step takes {} more than it has to, on all {} ranks.",
        RatioText(result.slowdown), PercentText(result.waste()), SecondsText(lost), shape.world_size);
  } else {
    html += fmt::format(
        "Stragglers cost this job next to nothing: it took <strong>{} times</strong> as long as it would have without "
        "them.",
        RatioText(result.slowdown));
  }
  html += fmt::format(
      "</p>\n<p class=\"soft\">{} steps ({} to {}) on {} data-parallel ranks × {} stages; tensor parallel {}, world of "
      "{} "
      "ranks.{}</p>\n",
      result.steps.size(), result.steps.front(), result.steps.back(), shape.dp_size, shape.pp_size, shape.tp_size,
      shape.world_size,
      result.left_out_steps.empty() ? std::string()
                                    : fmt::format(" {} steps lack operations and are left out, the first of them {}.",
                                                  result.left_out_steps.size(), result.left_out_steps.front()));
  return html;
}

std::string Figure(const char* name, const std::string& value, const std::string& note) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd><dd class=\"note\">{}</dd></div>\n", name, value, note);
}

std::string Figures(const WhatIfResult& result) {
  std::string html = "<dl class=\"figures\">\n";
  html += Figure("Slowdown S", RatioText(result.slowdown), "simulated time over ideal time");
  html += Figure("Waste", PercentText(result.waste()), "share of the time that is lost, 1 − 1/S");
  html += Figure(
      "Step", SecondsText(Mean(result.measured)),
      fmt::format("measured; {} simulated, {} ideal", SecondsText(Mean(result.simulated)), SecondsText(result.ideal)));
  if (result.by_slowest_workers) {
    html += Figure("Slowest workers", PercentText(result.by_slowest_workers->removed),
                   "of the loss goes with the slowest 3 % of the workers (M<sub>W</sub>)");
  }
  if (result.by_last_stage && result.shape.pp_size > 1) {
    html += Figure("Last stage", PercentText(result.by_last_stage->removed),
                   "of the loss goes with the last stage (M<sub>S</sub>)");
  }
  const double error = std::abs(result.launch_slowdown - 1);
  html += Figure("Model", PercentText(error), "between simulated and measured: gaps that no operation explains");
  html += "</dl>\n";
  if (error >= kModelTooFar) {
    html += fmt::format(
        "<p class=\"warn\">The simulation is {} from what was measured. Something that was not traced, such as data "
        "loading, takes much of the time: take the rest with care.</p>\n",
        PercentText(error));
  }
  return html + "</header>\n";
}

const char* TitleOf(const std::string& cause) {
  static constexpr std::pair<const char*, const char*> kTitles[] = {
      {"faulty-worker", "A few slow workers"},
      {"last-stage", "Too much work on the last stage"},
      {"sequence-length", "Sequences of uneven length"},
      {"garbage-collection", "Pauses of the garbage collector"},
      {"network", "Slow transfers"},
  };
  for (const auto& [name, title] : kTitles) {
    if (cause == name) return title;
  }
  return "Likely cause";
}

std::string Causes(const ReportInput& input) {
  if (!input.result.by_type) return "";
  std::string html = "<section aria-labelledby=\"causes\"><h2 id=\"causes\">Likely causes</h2>\n";
  for (const CauseHint& hint : input.hints) {
    html += fmt::format(
        "<div class=\"hint\"><h3>{}</h3><p>{}</p><p class=\"note\">{}: {:.2f}, a sign from {:.2f} on</p></div>\n",
        TitleOf(hint.cause), EscapeHtml(hint.text), EscapeHtml(hint.cause), hint.value, hint.threshold);
  }
  if (input.hints.empty()) {
    html +=
        "<p>No known cause shows. Compare the slow ranks below with the nodes that they ran on, and the slow kinds of "
        "operation with what changed last.</p>\n";
  }
  return html + "</section>\n";
}

std::string Workers(const WhatIfResult& result) {
  const std::string map = HeatMap(result);
  if (map.empty()) return "";
  return "<section aria-labelledby=\"workers\"><h2 id=\"workers\">Slowdown per worker</h2>\n<p>What is left of the "
         "slowdown when only this worker's rank, or only its stage, keeps its measured times. One hot cell points at a "
         "node, a stripe at the split into stages, scatter at uneven sequences.</p>\n" +
         map + "</section>\n";
}

std::string Parts(const WhatIfResult& result) {
  if (!result.by_type) return "";
  double largest = result.slowdown;
  for (const auto* parts : {&result.by_type, &result.by_stage, &result.by_dp_rank}) {
    for (const double ratio : (*parts)->ratio) largest = std::max(largest, ratio);
  }
  return "<section aria-labelledby=\"parts\"><h2 id=\"parts\">Where it is lost</h2>\n<p>The slowdown that is left when "
         "only "
         "this part keeps its measured times and all else is ideal; 1 means that it costs nothing.</p>\n<div "
         "class=\"columns\"><div>" +
         PartBars("Kind of operation", *result.by_type, largest, kBarsPerPart) + "</div><div>" +
         PartBars("Stage", *result.by_stage, largest, kBarsPerPart) + "</div><div>" +
         PartBars("Data-parallel rank", *result.by_dp_rank, largest, kBarsPerPart) + "</div></div></section>\n";
}

std::string WhatIf(const std::vector<Scenario>& scenarios) {
  if (scenarios.empty()) return "";
  std::string html =
      "<section aria-labelledby=\"what-if\"><h2 id=\"what-if\">What if</h2>\n<div class=\"scroll\" tabindex=\"0\" "
      "role=\"region\" aria-label=\"Scenarios\"><table><caption>Steps as they would be</caption><thead><tr><th "
      "scope=\"col\">supposed</th><th scope=\"col\">step</th><th scope=\"col\">speedup</th><th scope=\"col\">slowdown "
      "left</th></tr></thead><tbody>\n";
  for (const Scenario& scenario : scenarios) {
    html +=
        fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>\n", EscapeHtml(scenario.text),
                    SecondsText(scenario.mean_seconds), RatioText(scenario.speedup), RatioText(scenario.slowdown));
  }
  return html + "</tbody></table></div></section>\n";
}

}  // namespace

std::string RenderReport(const ReportInput& input) {
  const WhatIfResult& result = input.result;
  const size_t slowest = SlowestStep(result);
  std::string html = Head(result) + Lead(result) + Figures(result) + Causes(input) + WhatIf(input.scenarios) +
                     Workers(result) + Parts(result);
  html += "<section aria-labelledby=\"steps\"><h2 id=\"steps\">Steps</h2>\n" + StepSeries(result) + "</section>\n";
  html += fmt::format(
      "<section aria-labelledby=\"timeline\"><h2 id=\"timeline\">Slowest step, {}</h2>\n<p>It took {}; without "
      "stragglers it "
      "would have taken {}. Above each stage's ideal, which is the same on every data-parallel rank, what its workers "
      "did.</p>\n",
      result.steps[slowest], SecondsText(result.measured[slowest]), SecondsText(result.ideal));
  html += Timeline(input.trace, input.model, result, slowest) + "</section>\n";
  html +=
      "<footer><p>Made by pacectl whatif after the what-if study of stragglers (arXiv 2505.05713). Hints are signs, "
      "not "
      "verdicts.</p></footer>\n</main></body></html>\n";
  return html;
}

}  // namespace paceline::analysis
