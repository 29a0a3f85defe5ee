// `pacectl whatif`: what the stragglers of a traced job cost, from the trace files of the what-if study or of PyTorch's
// profiler. Needs no cluster. Describes itself to CLI11 and runs. Made and called by main().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/whatif/analysis.h"
#include "analysis/whatif/hints.h"
#include "cli/output.h"

namespace CLI {
class App;
}

namespace paceline::cli {

class WhatIfCommand {
 public:
  // Adds "whatif" to `app`, which must outlive this. `output` is that of the whole program.
  static std::unique_ptr<WhatIfCommand> AddTo(CLI::App& app, std::string* output);
  virtual ~WhatIfCommand() = default;

  // Whether it was given.
  virtual bool is_given() const = 0;
  // Runs it: the program's exit code.
  virtual int Run(OutputFormat format) = 0;
};

// "12,20-23" as steps; kInvalidArgument for anything else, for a range that goes down, and for more than 100,000 steps.
Result<std::vector<int64_t>> ParseSteps(const std::string& text);

// The result for people: slowdown and waste, the slowest ranks, stages and operations, likely causes. Ends with a
// newline.
std::string RenderWhatIf(const analysis::WhatIfResult& result, const std::vector<analysis::CauseHint>& hints);

}  // namespace paceline::cli
