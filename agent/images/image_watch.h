// Asks the node's snapshotter plugin for its images now and then, and keeps what the node's plan reports of them. Byte
// counts that merely grow are told while an image is young, every few seconds, and seldom afterwards: each report is a
// write of the node's plan.
//
// One thread of its own runs Run; Reports may be called from any.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lib/api/node_plan.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mutex.h"
#include "lib/base/result.h"

namespace paceline::agent {

struct ImageWatchOptions {
  // The plugin's answer; kUnavailable when there is none on this node, which is nothing to talk about.
  std::function<Result<std::string>(Deadline deadline)> ask;
  std::function<void()> on_news;                           // the reports have changed
  std::function<void(std::string_view answer)> on_answer;  // may be null; called on the looking thread
  Duration period = std::chrono::seconds(2);
  Duration ask_limit = std::chrono::seconds(5);
  Duration young = std::chrono::minutes(3);           // after its first container
  Duration young_period = std::chrono::seconds(5);    // between two reports of figures of young images
  Duration settled_period = std::chrono::minutes(5);  // of others
};

// Sends a line to the plugin that serves `socket` and gives its answer. kUnavailable when there is none.
Result<std::string> AskSnapshotter(const std::string& socket, std::string_view line, const Clock& clock,
                                   Deadline deadline);

class ImageWatch {
 public:
  // Borrows `clock` and `log`.
  ImageWatch(ImageWatchOptions options, const Clock& clock, Logger& log)
      : options_(std::move(options)), clock_(clock), log_(log) {}

  void Run(std::stop_token stop) EXCLUDES(mutex_);
  // One look; blocks for the plugin, bounded. True when the reports have changed.
  bool Look() EXCLUDES(mutex_);
  std::vector<api::ImageReport> Reports() const EXCLUDES(mutex_);

 private:
  bool IsDue(const std::vector<api::ImageReport>& now) const REQUIRES(mutex_);

  const ImageWatchOptions options_;
  const Clock& clock_;
  Logger& log_;
  bool has_failed_ = false;  // used by the looking thread alone
  mutable Mutex mutex_;
  std::vector<api::ImageReport> reports_ GUARDED_BY(mutex_);
  TimePoint told_at_ GUARDED_BY(mutex_){};
};

}  // namespace paceline::agent
