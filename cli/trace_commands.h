// `pacectl trace`: how far a training run's communicators are, what keeps it from going on, and its traces as files;
// from the agents of a cluster, from the rings of this machine, or from saved tables. Describes its subcommands to
// CLI11 and runs the one that was given. Made and called by main().
#pragma once

#include <memory>
#include <string>

#include "analysis/trace_model.h"
#include "cli/output.h"
#include "cli/session.h"
#include "lib/base/clock.h"

namespace CLI {
class App;
}

namespace paceline::cli {

class TraceCommands {
 public:
  // Adds the group "trace" to `app`, which must outlive this. `output` and `session` are those of the whole program;
  // the session is read when a command runs.
  static std::unique_ptr<TraceCommands> AddTo(CLI::App& app, std::string* output, const SessionOptions* session);
  virtual ~TraceCommands() = default;

  // Whether one of them was given.
  virtual bool is_given() const = 0;
  // Runs it: 0 when nothing is wrong, 1 when the traces cannot be had, 3 when something keeps the run from going on.
  virtual int Run(OutputFormat format, const Clock& clock) = 0;
};

// The verdict for a person. Pure.
std::string RenderVerdict(const analysis::Verdict& verdict);

}  // namespace paceline::cli
