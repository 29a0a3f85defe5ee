// `pacectl deps record|restore|unmount|ls|show|verify|gc|explain-key`: dependency snapshots without Kubernetes. Flags,
// stores and what is printed; lib/deps does the work. Made and called by main().
#pragma once

#include <memory>
#include <string>

#include "cli/output.h"
#include "lib/base/clock.h"

namespace CLI {
class App;
}

namespace paceline::cli {

// Exit code of a restore that found no snapshot: the install is to be run.
inline constexpr int kExitNoSnapshot = 4;

class DepsCommands {
 public:
  // Adds the group "deps" to `app`, which must outlive this. `output` and `ns` are those of the whole program.
  static std::unique_ptr<DepsCommands> AddTo(CLI::App& app, std::string* output, const std::string* ns);
  virtual ~DepsCommands() = default;

  // Whether one of them was given.
  virtual bool is_given() const = 0;
  // Runs it: the program's exit code.
  virtual int Run(OutputFormat format, const Clock& clock) = 0;
};

}  // namespace paceline::cli
