// `pacectl image mount|unmount|status|hotset`: starts paceline-snapshotter on a converted image and talks to it, or to
// the plugin of this node. The programs meet on the command line and on the mount's socket; this file finds the image
// and the program, no more. Made and called by main(), after ImageCommands, whose group it adds to.
#pragma once

#include <memory>
#include <string>

#include "cli/output.h"
#include "lib/base/clock.h"

namespace CLI {
class App;
}

namespace paceline::cli {

// paceline-snapshotter: beside this program, as both are installed; else its name, for the PATH.
std::string SnapshotterPath();

class MountCommands {
 public:
  // Adds to the group "image" of `app`, which must be there and outlive this. `output` is that of the whole program.
  static std::unique_ptr<MountCommands> AddTo(CLI::App& app, std::string* output);
  virtual ~MountCommands() = default;

  // Whether one of them was given.
  virtual bool is_given() const = 0;
  // Runs it: the program's exit code. For people, mounting and unmounting end in another program, which takes this
  // process over; for programs (`format` is not kTable) that one runs beside it, and what was done is told as a value.
  virtual int Run(OutputFormat format, const Clock& clock) = 0;
};

}  // namespace paceline::cli
