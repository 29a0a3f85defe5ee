// A Logger that remembers its lines, for tests of what an owner of an activity reports. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/log.h"

namespace paceline::fakes {

class CaptureLog {
 public:
  struct Line {
    LogLevel level;
    std::string message;
    std::map<std::string, std::string> fields;
  };

  explicit CaptureLog(LogLevel level = LogLevel::kDebug);
  ~CaptureLog();

  // Lives as long as this object.
  Logger& logger() { return *logger_; }

  // Everything so far, oldest first.
  std::vector<Line> lines() const;
  // How many lines have exactly this message.
  size_t Count(std::string_view message) const;
  // All lines as text, one a line, for failure messages: EXPECT_EQ(...) << log.Text().
  std::string Text() const;

 private:
  class Store;
  std::shared_ptr<Store> store_;  // shared with the sink that the logger owns
  std::unique_ptr<Logger> logger_;
};

}  // namespace paceline::fakes
