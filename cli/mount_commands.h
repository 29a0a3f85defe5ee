// `pacectl image mount|unmount|status|hotset`: starts paceline-snapshotter on a converted image and talks to it. The
// programs meet on the command line and on the mount's socket; this file finds the image and the program, no more. Made
// and called by main(), after ImageCommands, whose group it adds to.
#pragma once

#include <memory>
#include <string>

#include "lib/base/clock.h"

namespace CLI {
class App;
}

namespace paceline::cli {

// paceline-snapshotter: beside this program, as both are installed; else its name, for the PATH.
std::string SnapshotterPath();

class MountCommands {
 public:
  // Adds to the group "image" of `app`, which must be there and outlive this.
  static std::unique_ptr<MountCommands> AddTo(CLI::App& app);
  virtual ~MountCommands() = default;

  // Whether one of them was given.
  virtual bool is_given() const = 0;
  // Runs it: the program's exit code. Mounting and unmounting end in another program, which takes this process over.
  virtual int Run(const Clock& clock) = 0;
};

}  // namespace paceline::cli
