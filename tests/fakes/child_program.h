// A program that a test starts, with what it prints: and a whole file as text, for what it leaves behind. For tests of
// real programs. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "lib/base/unique_fd.h"

namespace paceline::fakes {

struct ChildProgram {
  pid_t pid = -1;
  UniqueFd out;  // its standard output and error
};

struct ChildResult {
  int code = 0;     // 128 and the signal's number when a signal ended it
  std::string out;  // what was not read before
};

// Runs words[0] with the rest as arguments. `before_exec` runs in the child; 98 is the exit code when the program
// cannot be started.
ChildProgram StartProgram(std::vector<std::string> words, const std::function<void()>& before_exec = {});
// Blocks until it has printed `text`, or has closed its output; gives what it printed up to there.
std::string ReadUntil(const ChildProgram& program, const std::string& text);
// Reads the rest and waits for its end. Blocks.
ChildResult Finish(const ChildProgram& program);

// Empty when there is none.
std::string ReadText(const std::string& path);

}  // namespace paceline::fakes
