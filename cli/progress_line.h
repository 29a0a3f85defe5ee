// Shows on a terminal how far a long command is, from a thread of its own, and wipes the line at the end. For commands
// that work on stores; says nothing when standard error is no terminal.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "lib/base/clock.h"

namespace paceline::cli {

class ProgressLine {
 public:
  // `text` is called from the thread, until destruction; while it is empty the terminal is left to others.
  ProgressLine(const Clock& clock, std::function<std::string()> text);

 private:
  std::jthread thread_;
};

}  // namespace paceline::cli
