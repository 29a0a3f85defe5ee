// `pacectl image`: converts container images to block images, shows and verifies what a store holds. Needs no cluster,
// no daemon and no root. Describes its subcommands to CLI11 and runs the one that was given. Made and called by main().
#pragma once

#include <memory>
#include <string>

#include "cli/output.h"
#include "lib/base/clock.h"

namespace CLI {
class App;
}

namespace paceline::cli {

class ImageCommands {
 public:
  // Adds the group "image" to `app`, which must outlive this. `output` is that of the whole program.
  static std::unique_ptr<ImageCommands> AddTo(CLI::App& app, std::string* output);
  virtual ~ImageCommands() = default;

  // Whether one of them was given.
  virtual bool is_given() const = 0;
  // Runs it: the program's exit code.
  virtual int Run(OutputFormat format, const Clock& clock) = 0;
};

}  // namespace paceline::cli
