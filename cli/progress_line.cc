#include "cli/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "cli/output.h"

namespace paceline::cli {

ProgressLine::ProgressLine(const Clock& clock, std::function<std::string()> text) {
  if (isatty(STDERR_FILENO) == 0) return;
  thread_ = std::jthread([&clock, text = std::move(text)](const std::stop_token& stop) {
    while (clock.SleepFor(kProgressPeriod, stop)) {
      const std::string line = text();
      if (!line.empty()) fmt::print(stderr, "\r\033[K{}", line);
    }
    fmt::print(stderr, "\r\033[K");
  });
}

}  // namespace paceline::cli
