#include "cli/whatif_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "analysis/whatif/kineto_trace.h"
#include "analysis/whatif/mean.h"
#include "analysis/whatif/perfetto.h"
#include "analysis/whatif/report.h"
#include "analysis/whatif/result_json.h"
#include "analysis/whatif/trace_file.h"
#include "cli/whatif_scenarios.h"

namespace paceline::cli {
namespace {

using analysis::CauseHint;
using analysis::Decomposition;
using analysis::Mean;
using analysis::WhatIfResult;

constexpr size_t kMaxSteps = 100000;
constexpr size_t kRowsPerTable = 8;

struct Options {
  std::string trace;
  std::vector<std::string> kineto;
  std::string metadata;
  std::string steps;
  std::string json;
  std::string html;
  std::string perfetto;
  ScenarioFlags scenarios;
  double threshold = 1.03;
  int threads = 0;
};

std::string Percent(double share) { return fmt::format("{:.1f} %", share * 100); }

// The parts that cost the most.
std::string RenderParts(const std::string& title, const Decomposition& parts) {
  std::vector<size_t> order(parts.parts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return parts.ratio[a] > parts.ratio[b]; });
  Table table{{title, "SLOWDOWN"}, {}};
  for (size_t i = 0; i < std::min(order.size(), kRowsPerTable); i++) {
    table.rows.push_back({parts.parts[order[i]], fmt::format("{:.4f}", parts.ratio[order[i]])});
  }
  std::string text = RenderTable(table);
  if (order.size() > kRowsPerTable) text += fmt::format("({} more)\n", order.size() - kRowsPerTable);
  return text + "\n";
}

Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return file ? Status() : UnavailableError("cannot write " + path);
}

class Command : public WhatIfCommand {
 public:
  Command(CLI::App& app, std::string* output) {
    app_ = app.add_subcommand("whatif", "what stragglers cost a traced job, and where");
    CLI::Option* const trace =
        app_->add_option("--trace", options_.trace, "operations: Parquet file in the what-if study's format")
            ->check(CLI::ExistingFile);
    app_->add_option("--kineto", options_.kineto,
                     "operations: what PyTorch's profiler wrote, a file of each rank (see docs/what-if.md)")
        ->check(CLI::ExistingFile)
        ->excludes(trace);
    app_->add_option("--metadata", options_.metadata, "the job's shape: YAML file of the study (dp_size, pp_size, ...)")
        ->required()
        ->check(CLI::ExistingFile);
    app_->add_option("--steps", options_.steps, "only these steps, such as 12,20-23");
    app_->add_option("--json", options_.json, "write the whole result to this file");
    app_->add_option("--html", options_.html,
                     "write a report for people to this file: one HTML page that needs no network");
    app_->add_option("--perfetto", options_.perfetto,
                     "write measured and ideal timelines to this file: Chrome trace JSON for ui.perfetto.dev");
    AddScenarios();
    app_->add_option("--threshold", options_.threshold, "slowdown from which it is explained")
        ->check(CLI::Range(1.0, 100.0))
        ->capture_default_str();
    app_->add_option("--threads", options_.threads, "threads (as many as cores unless given)")
        ->check(CLI::Range(1, 1024));
    app_->add_option("-o,--output", *output, "table, json or yaml")->capture_default_str();
  }

  bool is_given() const override { return app_->parsed(); }

  int Run(OutputFormat format) override {
    const Status done = DoRun(format);
    return done.ok() ? 0 : Fail(done);
  }

 private:
  void AddScenarios() {
    ScenarioFlags& flags = options_.scenarios;
    app_->add_option("--ideal-workers", flags.ideal_workers,
                     "what if these workers were as fast as the others: dp rank and stage, such as 0:3,1:2");
    app_->add_option("--without-ranks", flags.without_ranks,
                     "what if these global ranks were taken away without a replacement, such as 8-15 for a node");
    app_->add_option("--move-layers", flags.move_layers,
                     "what if layers were on another stage: from, to, how many, such as 3:0:1 (needs --layers)");
    app_->add_option("--layers", flags.layers, "layers of each stage today, such as 8,8,8,8");
    app_->add_option("--planned-gc", flags.planned_gc,
                     "what if Python collected garbage on all ranks together each so many steps")
        ->check(CLI::PositiveNumber);
  }

  Result<analysis::StepTrace> ReadTrace() const {
    if (!options_.kineto.empty()) return analysis::ReadKinetoTraces(options_.kineto, options_.metadata);
    if (options_.trace.empty()) return InvalidArgumentError("--trace or --kineto is needed");
    return analysis::ReadStudyTrace(options_.trace, options_.metadata);
  }

  Status DoRun(OutputFormat format) const {
    analysis::WhatIfOptions how;
    how.decompose_threshold = options_.threshold;
    how.threads =
        options_.threads > 0 ? options_.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    ASSIGN_OR_RETURN(const analysis::ScenarioRequest request, ParseScenarios(options_.scenarios));
    std::vector<int64_t> steps;
    if (!options_.steps.empty()) {
      ASSIGN_OR_RETURN(steps, ParseSteps(options_.steps));
    }
    ASSIGN_OR_RETURN(analysis::StepTrace whole, ReadTrace());
    ASSIGN_OR_RETURN(const analysis::StepTrace trace, analysis::KeepSteps(std::move(whole), std::move(steps)));
    ASSIGN_OR_RETURN(const analysis::WhatIfModel model, analysis::BuildWhatIfModel(trace));
    ASSIGN_OR_RETURN(const WhatIfResult result, analysis::AnalyzeModel(trace, model, how));
    const std::vector<CauseHint> hints = analysis::FindCauses(model, result);
    ASSIGN_OR_RETURN(const auto scenarios, analysis::PlayScenarios(trace, model, result, request, how.threads));
    RETURN_IF_ERROR(WriteFiles(trace, model, result, hints, scenarios));
    const auto json = analysis::WhatIfJson(result, hints, scenarios);
    if (format == OutputFormat::kTable) {
      fmt::print("{}", RenderWhatIf(result, hints));
      if (!scenarios.empty()) fmt::print("\n{}", RenderScenarios(scenarios));
    } else if (format == OutputFormat::kJson) {
      fmt::print("{}\n", json.dump(2));  // in the order of the published files
    } else {
      fmt::print("{}", RenderValue(nlohmann::json(json), format));
    }
    return Status();
  }

  Status WriteFiles(const analysis::StepTrace& trace, const analysis::WhatIfModel& model, const WhatIfResult& result,
                    const std::vector<CauseHint>& hints, const std::vector<analysis::Scenario>& scenarios) const {
    if (!options_.json.empty()) {
      RETURN_IF_ERROR(WriteText(options_.json, analysis::WhatIfJson(result, hints, scenarios).dump(2) + "\n"));
    }
    if (!options_.html.empty()) {
      RETURN_IF_ERROR(WriteText(options_.html, analysis::RenderReport({trace, model, result, hints, scenarios})));
    }
    if (options_.perfetto.empty()) return Status();
    std::ofstream file(options_.perfetto, std::ios::binary | std::ios::trunc);
    const Status written = analysis::WritePerfetto(trace, model, result, file);
    return written.ok() ? written : written.Annotate(options_.perfetto);
  }

  CLI::App* app_;
  Options options_;
};

}  // namespace

std::unique_ptr<WhatIfCommand> WhatIfCommand::AddTo(CLI::App& app, std::string* output) {
  return std::make_unique<Command>(app, output);
}

Result<std::vector<int64_t>> ParseSteps(const std::string& text) {
  std::vector<int64_t> steps;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto take = [&](int64_t& value) {
    const auto [rest, error] = std::from_chars(at, end, value);
    const bool is_number = error == std::errc() && value >= 0;
    at = rest;
    return is_number;
  };
  const Status wrong = InvalidArgumentError(
      fmt::format("\"{}\" are no steps; expected numbers and ranges such as 12,20-23", text.substr(0, 80)));
  for (;;) {
    int64_t first = 0;
    if (!take(first)) return wrong;
    int64_t last = first;
    if (at != end && *at == '-') {
      ++at;
      if (!take(last) || last < first) return wrong;
    }
    if (last - first >= static_cast<int64_t>(kMaxSteps - steps.size())) {
      return InvalidArgumentError(fmt::format("more than {} steps", kMaxSteps));
    }
    for (int64_t step = first; step <= last; step++) steps.push_back(step);
    if (at == end) return steps;
    if (*at++ != ',') return wrong;
  }
}

std::string RenderWhatIf(const WhatIfResult& result, const std::vector<CauseHint>& hints) {
  std::string text = fmt::format(
      "{}: {} steps, {} data-parallel ranks x {} stages\n\n"
      "slowdown   {:.4f}   {} of the time is lost to stragglers\n"
      "step       {} measured, {} simulated, {} without stragglers\n",
      result.shape.trial_name.empty() ? "job" : result.shape.trial_name, result.steps.size(), result.shape.dp_size,
      result.shape.pp_size, result.slowdown, Percent(result.waste()), FormatSeconds(Mean(result.measured)),
      FormatSeconds(Mean(result.simulated)), FormatSeconds(result.ideal));
  const double error = std::abs(result.launch_slowdown - 1);
  text += fmt::format("model      {} from what was measured{}\n", Percent(error),
                      error >= 0.05 ? ": too far, take the rest with care" : "");
  if (!result.left_out_steps.empty()) {
    text += fmt::format("left out   {} steps with missing operations, the first of them {}\n",
                        result.left_out_steps.size(), result.left_out_steps.front());
  }
  if (result.by_slowest_workers) {
    text += fmt::format("workers    the slowest 3 % explain {} of the loss (M_W)\n",
                        Percent(result.by_slowest_workers->removed));
  }
  if (result.by_last_stage && result.shape.pp_size > 1) {
    text += fmt::format("last stage explains {} of the loss (M_S)\n", Percent(result.by_last_stage->removed));
  }
  text += '\n';
  if (result.by_dp_rank) text += RenderParts("DP RANK", *result.by_dp_rank);
  if (result.by_stage) text += RenderParts("STAGE", *result.by_stage);
  if (result.by_type) text += RenderParts("OPERATION", *result.by_type);
  if (!result.by_type) text += "Too little slowdown to explain (see --threshold).\n";
  for (const CauseHint& hint : hints) text += fmt::format("hint ({}): {}\n", hint.cause, hint.text);
  if (result.by_type && hints.empty())
    text += "No known cause shows: compare the tables above with the nodes that the ranks ran on.\n";
  return text;
}

}  // namespace paceline::cli
