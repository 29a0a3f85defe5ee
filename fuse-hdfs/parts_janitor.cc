#include "fuse-hdfs/parts_janitor.h"

#include <algorithm>
#include <utility>

namespace paceline::fuse_hdfs {

PartsJanitor::PartsJanitor(hdfs::FileSystem& fs, const Clock& clock, const JanitorRules& rules, Report report)
    : fs_(fs), clock_(clock), rules_(rules), report_(std::move(report)) {}

PartsJanitor::~PartsJanitor() {
  std::jthread thread;
  {
    MutexLock lock(mutex_);
    thread = std::move(thread_);
  }
  thread.request_stop();
}

void PartsJanitor::Note(const std::string& directory) {
  MutexLock lock(mutex_);
  const auto found = directories_.find(directory);
  if (found != directories_.end()) {
    if (std::exchange(found->second.is_due, true)) return;
  } else {
    if (directories_.size() >= rules_.max_directories) return;
    directories_[directory] = {.when = clock_.Now() + rules_.delay, .is_due = true};
  }
  if (!thread_.joinable()) thread_ = std::jthread([this](std::stop_token stop) { Run(std::move(stop)); });
  changed_.NotifyAll();
}

void PartsJanitor::Run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::string directory;
    {
      MutexLock lock(mutex_);
      const TimePoint now = clock_.Now();
      TimePoint wake = TimePoint::max();
      for (auto it = directories_.begin(); it != directories_.end() && directory.empty();) {
        Entry& entry = it->second;
        if (entry.when > now) {
          if (entry.is_due) wake = std::min(wake, entry.when);
          ++it;
        } else if (!entry.is_due) {
          it = directories_.erase(it);  // nobody has written there for long
        } else {
          directory = it->first;
          entry = {.when = now + rules_.pause, .is_due = false};
        }
      }
      if (directory.empty()) {
        changed_.WaitUntil(lock, clock_, wake, stop);
        continue;
      }
    }
    report_(directory, fs_.RemoveStaleParts(directory, rules_.quiet, Deadline::After(clock_, rules_.limit)));
  }
}

}  // namespace paceline::fuse_hdfs
