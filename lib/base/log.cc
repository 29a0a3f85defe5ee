#include "lib/base/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>

#include "lib/base/log_format.h"
#include "lib/base/mutex.h"

namespace paceline {

LogField::LogField(std::string_view k, double v) : key(k), value(fmt::format("{}", v)), is_bare(true) {}

Status ParseLogLevel(std::string_view text, LogLevel* level) {
  for (LogLevel candidate : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError}) {
    if (text == LogLevelName(candidate)) {
      *level = candidate;
      return Status();
    }
  }
  return InvalidArgumentError(fmt::format("\"{}\" is not a log level; use debug, info, warn or error", text));
}

Status ParseLogFormat(std::string_view text, LogFormat* format) {
  if (text != "text" && text != "json") {
    return InvalidArgumentError(fmt::format("\"{}\" is not a log format; use text or json", text));
  }
  *format = text == "json" ? LogFormat::kJson : LogFormat::kText;
  return Status();
}

namespace {

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarn: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

// '%' starts a directive in spdlog's patterns.
std::string EscapePattern(std::string text) {
  for (size_t pos = 0; (pos = text.find('%', pos)) != std::string::npos; pos += 2) text.insert(pos, 1, '%');
  return text;
}

// spdlog brings the time, the locking and the write; the line itself is ours.
class StderrSink final : public LogSink {
 public:
  StderrSink(std::string_view program, LogFormat format)
      : format_(format), spdlog_(std::string(program), std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    const std::string pattern = format == LogFormat::kText ? "%Y-%m-%dT%H:%M:%S.%fZ %v"
                                                           : R"({"time":"%Y-%m-%dT%H:%M:%S.%fZ","program":)" +
                                                                 EscapePattern(QuoteJson(program)) + ",%v}";
    spdlog_.set_formatter(std::make_unique<spdlog::pattern_formatter>(pattern, spdlog::pattern_time_type::utc));
    spdlog_.set_level(spdlog::level::trace);  // Logger has dropped what is below its level
    spdlog_.flush_on(spdlog::level::trace);
  }

  void Write(LogLevel level, std::string_view message, const std::vector<LogField>& fields) override {
    const std::string line =
        format_ == LogFormat::kText
            ? fmt::format("{:5} {}: {}", LogLevelName(level), spdlog_.name(), FormatLogText(message, fields))
            : fmt::format(R"("level":"{}",{})", LogLevelName(level), FormatLogJson(message, fields));
    spdlog_.log(SpdlogLevel(level), spdlog::string_view_t(line.data(), line.size()));
  }

 private:
  const LogFormat format_;
  spdlog::logger spdlog_;
};

class SinkLogger final : public Logger {
 public:
  SinkLogger(std::unique_ptr<LogSink> sink, LogLevel level) : level_(level), sink_(std::move(sink)) {}

  void SetLevel(LogLevel level) override { level_ = level; }

 protected:
  void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) override {
    if (level < level_) return;
    const std::vector<LogField> copy(fields);
    MutexLock lock(mutex_);
    sink_->Write(level, message, copy);
  }

 private:
  std::atomic<LogLevel> level_;
  Mutex mutex_;
  const std::unique_ptr<LogSink> sink_ PT_GUARDED_BY(mutex_);
};

class DiscardLogger final : public Logger {
 public:
  void SetLevel(LogLevel) override {}

 protected:
  void Log(LogLevel, std::string_view, std::initializer_list<LogField>) override {}
};

}  // namespace

std::unique_ptr<Logger> Logger::ToStderr(std::string_view program, LogLevel level, LogFormat format) {
  return ToSink(std::make_unique<StderrSink>(program, format), level);
}

std::unique_ptr<Logger> Logger::ToSink(std::unique_ptr<LogSink> sink, LogLevel level) {
  return std::make_unique<SinkLogger>(std::move(sink), level);
}

std::unique_ptr<Logger> Logger::Discard() { return std::make_unique<DiscardLogger>(); }

}  // namespace paceline
