// Runs programs for the recorder: the user's install command, and questions to interpreters. Blocks until they end.
#pragma once

#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::deps {

// How a command ended: its exit code, or 128 and the signal's number, as a shell says it.
struct CommandEnd {
  int code = 0;
  double seconds = 0;
};

// Runs `command` by /bin/sh -c with exactly `environment` ("NAME=value"), and with this process's directory, input and
// output; what it prints goes to standard error when `output` says so, since standard output may be a document of ours.
// The command gets SIGTERM when this process dies. kUnavailable when no shell can be started.
enum class CommandOutput { kAsIs, kToStderr };
Result<CommandEnd> RunInstall(const std::string& command, const std::vector<std::string>& environment,
                              CommandOutput output, const Clock& clock);

// The same for a program by its path or, without a slash, from the PATH; it gets this process's environment.
Result<CommandEnd> RunProgram(const std::vector<std::string>& words, CommandOutput output, const Clock& clock);

// Standard output of a program that is found on `path` (a list of folders); its standard error goes nowhere. kNotFound
// when there is no such program, kUnavailable when it fails or says more than 64 KiB, kDeadlineExceeded (it is killed).
Result<std::string> AskProgram(const std::vector<std::string>& words, const std::string& path,
                               const std::vector<std::string>& environment, const Clock& clock, Deadline deadline);

}  // namespace paceline::deps
