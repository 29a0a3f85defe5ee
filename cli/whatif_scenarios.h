// The "what if" questions of `pacectl whatif` as flags, and their answers as text. Pure; called by whatif_command.cc.
#pragma once

#include <string>
#include <vector>

#include "analysis/whatif/scenarios.h"
#include "lib/base/result.h"

namespace paceline::cli {

// As given on the command line; empty or 0 means not asked.
struct ScenarioFlags {
  std::string ideal_workers;  // "0:3,1:2": data-parallel rank and stage
  std::string without_ranks;  // "8-15": global ranks
  std::string move_layers;    // "3:0:1": from stage, to stage, how many
  std::string layers;         // "8,8,8,8": per stage
  int planned_gc = 0;         // steps
};

// kInvalidArgument names the flag and shows what is expected.
Result<analysis::ScenarioRequest> ParseScenarios(const ScenarioFlags& flags);

// A table of the answers with a line for each that says what was supposed; "" without any.
std::string RenderScenarios(const std::vector<analysis::Scenario>& scenarios);

}  // namespace paceline::cli
