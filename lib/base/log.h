// Structured logging for the owners of an activity: main loops, reconcilers, dispatchers. Library code returns a Status
// and does not log.
//
// A line is a constant message plus key=value fields, so that it can be searched and counted:
//   log.Warn("sample skipped", {{"node", node}, {"error", status}});
// Keys are the same everywhere: job, run, namespace, pod, node, rank, digest, inode, error. A failure that the program
// goes on after says so ("skipped", "retrying"). Thread-safe. Output goes to stderr, as text or one JSON object a line.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lib/base/status.h"

namespace paceline {

enum class LogLevel { kDebug, kInfo, kWarn, kError };
enum class LogFormat { kText, kJson };

// "debug", "info", "warn", "error"; kInvalidArgument names the accepted words.
Status ParseLogLevel(std::string_view text, LogLevel* level);
// "text" or "json"; kInvalidArgument names them.
Status ParseLogFormat(std::string_view text, LogFormat* format);

// One key=value pair. Values are rendered when the field is made.
struct LogField {
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, const Status& v) : key(k), value(v.ToString()) {}
  LogField(std::string_view k, bool v) : key(k), value(v ? "true" : "false"), is_bare(true) {}
  LogField(std::string_view k, double v);  // as short as reads back to the same number
  template <typename T, typename = std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>>
  LogField(std::string_view k, T v) : key(k), value(std::to_string(v)), is_bare(true) {}

  std::string_view key;
  std::string value;
  bool is_bare = false;  // numbers and booleans: not quoted in JSON
};

// Where finished lines go; tests pass their own to read what was logged.
class LogSink {
 public:
  virtual ~LogSink() = default;
  // May be called from any thread, never concurrently for one Logger. Must not log into that Logger.
  virtual void Write(LogLevel level, std::string_view message, const std::vector<LogField>& fields) = 0;
};

class Logger {
 public:
  // Writes to stderr through spdlog.
  static std::unique_ptr<Logger> ToStderr(std::string_view program, LogLevel level, LogFormat format);
  static std::unique_ptr<Logger> ToSink(std::unique_ptr<LogSink> sink, LogLevel level);
  // Drops everything; for tests that do not look.
  static std::unique_ptr<Logger> Discard();

  virtual ~Logger() = default;

  void Debug(std::string_view message, std::initializer_list<LogField> fields = {}) {
    Log(LogLevel::kDebug, message, fields);
  }
  void Info(std::string_view message, std::initializer_list<LogField> fields = {}) {
    Log(LogLevel::kInfo, message, fields);
  }
  void Warn(std::string_view message, std::initializer_list<LogField> fields = {}) {
    Log(LogLevel::kWarn, message, fields);
  }
  void Error(std::string_view message, std::initializer_list<LogField> fields = {}) {
    Log(LogLevel::kError, message, fields);
  }

  virtual void SetLevel(LogLevel level) = 0;

 protected:
  virtual void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) = 0;
};

}  // namespace paceline
