#include "tests/fakes/capture_log.h"

#include <algorithm>

#include "lib/base/log_format.h"
#include "lib/base/mutex.h"

namespace paceline::fakes {

class CaptureLog::Store {
 public:
  void Add(Line line, const std::string& text) {
    MutexLock lock(mutex_);
    lines_.push_back(std::move(line));
    text_ += text + "\n";
  }

  std::vector<Line> lines() const {
    MutexLock lock(mutex_);
    return lines_;
  }

  std::string text() const {
    MutexLock lock(mutex_);
    return text_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<Line> lines_ GUARDED_BY(mutex_);
  std::string text_ GUARDED_BY(mutex_);
};

CaptureLog::CaptureLog(LogLevel level) : store_(std::make_shared<Store>()) {
  class Sink final : public LogSink {
   public:
    explicit Sink(std::shared_ptr<Store> store) : store_(std::move(store)) {}

    void Write(LogLevel level, std::string_view message, const std::vector<LogField>& fields) override {
      Line line{level, std::string(message), {}};
      for (const LogField& field : fields) line.fields[std::string(field.key)] = field.value;
      store_->Add(std::move(line), std::string(LogLevelName(level)) + " " + FormatLogText(message, fields));
    }

   private:
    std::shared_ptr<Store> store_;
  };
  logger_ = Logger::ToSink(std::make_unique<Sink>(store_), level);
}

CaptureLog::~CaptureLog() = default;

std::vector<CaptureLog::Line> CaptureLog::lines() const { return store_->lines(); }

size_t CaptureLog::Count(std::string_view message) const {
  const std::vector<Line> all = store_->lines();
  return std::count_if(all.begin(), all.end(), [message](const Line& line) { return line.message == message; });
}

std::string CaptureLog::Text() const { return store_->text(); }

}  // namespace paceline::fakes
