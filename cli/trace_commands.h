// `pacectl trace`: what keeps a training run from going on, from saved trace tables or from the rings of this machine,
// without a cluster. Describes its subcommands to CLI11 and runs the one that was given. Made and called by main().
#pragma once

#include <memory>
#include <string>

#include "analysis/trace_model.h"
#include "cli/output.h"
#include "lib/base/clock.h"

namespace CLI {
class App;
}

namespace paceline::cli {

class TraceCommands {
 public:
  // Adds the group "trace" to `app`, which must outlive this. `output` is that of the whole program.
  static std::unique_ptr<TraceCommands> AddTo(CLI::App& app, std::string* output);
  virtual ~TraceCommands() = default;

  // Whether one of them was given.
  virtual bool is_given() const = 0;
  // Runs it: 0 when nothing is wrong, 1 when the tables cannot be read, 3 when something keeps the run from going on.
  virtual int Run(OutputFormat format, const Clock& clock) = 0;
};

// The verdict for a person. Pure.
std::string RenderVerdict(const analysis::Verdict& verdict);

}  // namespace paceline::cli
