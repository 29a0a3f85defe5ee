// `pacectl fs`: files on HDFS, or in a folder by file:///, without a cluster and without Java. Describes its
// subcommands to CLI11 and runs the one that was given. Made and called by main().
#pragma once

#include <memory>
#include <string>

#include "cli/output.h"
#include "lib/base/clock.h"

namespace CLI {
class App;
}

namespace paceline::cli {

class FsCommands {
 public:
  // Adds the group "fs" to `app`, which must outlive this. `output` and `limit` are those of the whole program.
  static std::unique_ptr<FsCommands> AddTo(CLI::App& app, std::string* output);
  virtual ~FsCommands() = default;

  // Whether one of them was given.
  virtual bool is_given() const = 0;
  // Runs it: the program's exit code. `limit` is that of one question to the server.
  virtual int Run(OutputFormat format, Duration limit, const Clock& clock) = 0;
};

}  // namespace paceline::cli
