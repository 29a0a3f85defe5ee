#include "cli/whatif_scenarios.h"

#include <fmt/format.h>

#include <charconv>

#include "cli/output.h"
#include "cli/whatif_command.h"

namespace paceline::cli {
namespace {

constexpr size_t kMaxItems = 100000;

// "1:2,3:4" as tuples of `width` numbers.
Result<std::vector<std::vector<int>>> ParseTuples(const char* flag, const char* example, const std::string& text,
                                                  size_t width) {
  const Status wrong = InvalidArgumentError(
      fmt::format("{} \"{}\" is not understood; expected such as {}", flag, text.substr(0, 80), example));
  std::vector<std::vector<int>> tuples(1);
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    int value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0) return wrong;
    tuples.back().push_back(value);
    at = rest;
    const bool is_full = tuples.back().size() == width;
    if (at == end) break;
    if (*at++ != (is_full ? ',' : ':')) return wrong;
    if (is_full) tuples.emplace_back();
    if (tuples.size() > kMaxItems)
      return InvalidArgumentError(fmt::format("{} has more than {} items", flag, kMaxItems));
  }
  return tuples.back().size() == width ? Result<std::vector<std::vector<int>>>(std::move(tuples)) : wrong;
}

}  // namespace

Result<analysis::ScenarioRequest> ParseScenarios(const ScenarioFlags& flags) {
  analysis::ScenarioRequest request;
  if (!flags.ideal_workers.empty()) {
    ASSIGN_OR_RETURN(const auto workers, ParseTuples("--ideal-workers", "0:3,1:2", flags.ideal_workers, 2));
    for (const std::vector<int>& worker : workers) request.ideal_workers.emplace_back(worker[0], worker[1]);
  }
  if (!flags.without_ranks.empty()) {
    const Result<std::vector<int64_t>> ranks = ParseSteps(flags.without_ranks);
    if (!ranks.ok() || ranks->back() > INT32_MAX) {
      return InvalidArgumentError(fmt::format("--without-ranks \"{}\" is not understood; expected such as 8-15",
                                              flags.without_ranks.substr(0, 80)));
    }
    for (const int64_t rank : *ranks) request.removed_ranks.push_back(static_cast<int32_t>(rank));
  }
  if (flags.move_layers.empty() != flags.layers.empty()) {
    return InvalidArgumentError("--move-layers and --layers (of each stage, such as 8,8,8,8) go together");
  }
  if (!flags.move_layers.empty()) {
    ASSIGN_OR_RETURN(const auto moves, ParseTuples("--move-layers", "3:0:1", flags.move_layers, 3));
    for (const std::vector<int>& move : moves) request.moves.push_back({move[0], move[1], move[2]});
    ASSIGN_OR_RETURN(const auto layers, ParseTuples("--layers", "8,8,8,8", flags.layers, 1));
    for (const std::vector<int>& stage : layers) request.layers.push_back(stage[0]);
  }
  if (flags.planned_gc > 0) request.collected_every = flags.planned_gc;
  return request;
}

std::string RenderScenarios(const std::vector<analysis::Scenario>& scenarios) {
  if (scenarios.empty()) return "";
  Table table{{"WHAT IF", "STEP", "SPEEDUP", "SLOWDOWN LEFT"}, {}};
  std::string text;
  for (const analysis::Scenario& scenario : scenarios) {
    table.rows.push_back({scenario.kind, FormatSeconds(scenario.mean_seconds), fmt::format("{:.4f}", scenario.speedup),
                          fmt::format("{:.4f}", scenario.slowdown)});
    text += fmt::format("{}: {}\n", scenario.kind, scenario.text);
  }
  return RenderTable(table) + "\n" + text;
}

}  // namespace paceline::cli
