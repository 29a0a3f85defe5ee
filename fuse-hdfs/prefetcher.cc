#include "fuse-hdfs/prefetcher.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::fuse_hdfs {

Prefetcher::Prefetcher(hdfs::FileSystem& fs, const Clock& clock, const PrefetchRules& rules)
    : fs_(fs), clock_(clock), rules_(rules) {}

Prefetcher::~Prefetcher() {
  std::jthread thread;
  {
    MutexLock lock(mutex_);
    thread = std::move(thread_);
  }
  thread.request_stop();
}

Result<Prefetcher::Plan> Prefetcher::Add(const std::string& path, Deadline deadline) {
  ASSIGN_OR_RETURN(const hdfs::FileStatus status, fs_.Stat(path, deadline));
  Plan plan;
  RETURN_IF_ERROR(Walk(path, status, deadline, &plan));
  return plan;
}

Status Prefetcher::Walk(const std::string& path, const hdfs::FileStatus& status, Deadline deadline, Plan* plan) {
  if (status.type == hdfs::FileStatus::Type::kFile) {
    if (plan->files >= rules_.max_files) {
      return ResourceExhaustedError(fmt::format("{}: more than {} files", path, rules_.max_files));
    }
    ++plan->files;
    plan->bytes += status.length_bytes;
    if (status.length_bytes > 0) Take(path, status);
    return Status();
  }
  if (status.type != hdfs::FileStatus::Type::kDirectory) return Status();
  ASSIGN_OR_RETURN(const std::vector<hdfs::FileStatus> entries, hdfs::ListAll(fs_, path, deadline));
  for (const hdfs::FileStatus& entry : entries) {
    if (!fs_.IsVisibleName(entry.name)) continue;
    RETURN_IF_ERROR(Walk((path == "/" ? "" : path) + "/" + entry.name, entry, deadline, plan));
  }
  return Status();
}

void Prefetcher::Take(const std::string& path, const hdfs::FileStatus& status) {
  EntryPtr replaced;  // its reader goes outside of the lock
  MutexLock lock(mutex_);
  const TimePoint expires = clock_.Now() + rules_.hold;
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e->path == path; });
  if (known != entries_.end()) {
    const Entry& entry = **known;
    if (entry.modified == status.modified && entry.length_bytes == status.length_bytes &&
        entry.file_id == status.file_id) {
      (*known)->expires = expires;
      return;
    }
    replaced = *known;
    Drop(replaced);
  }
  if (entries_.size() >= rules_.max_files) return;
  entries_.push_back(std::make_shared<Entry>(Entry{.path = path,
                                                   .length_bytes = status.length_bytes,
                                                   .file_id = status.file_id,
                                                   .modified = status.modified,
                                                   .reader = nullptr,
                                                   .asked_bytes = 0,
                                                   .expires = expires}));
  if (!thread_.joinable()) thread_ = std::jthread([this](std::stop_token stop) { Run(std::move(stop)); });
  changed_.NotifyAll();
}

std::unique_ptr<hdfs::Reader> Prefetcher::Claim(const std::string& path, const hdfs::FileStatus& status) {
  EntryPtr entry;  // goes outside of the lock
  MutexLock lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e->path == path; });
  if (found == entries_.end()) return nullptr;
  entry = *found;
  Drop(entry);
  changed_.NotifyAll();  // there is room again
  const bool is_same = entry->modified == status.modified && entry->length_bytes == status.length_bytes &&
                       entry->file_id == status.file_id;
  // One that is being opened right now belongs to the thread that does it, which lets it go.
  if (!is_same || entry->is_opening || entry->reader == nullptr) return nullptr;
  ++claimed_;
  return std::move(entry->reader);
}

void Prefetcher::Clear() {
  std::list<EntryPtr> dropped;  // outside of the lock
  MutexLock lock(mutex_);
  dropped.swap(entries_);
  for (const EntryPtr& entry : dropped) entry->is_wanted = false;
  asked_bytes_ = 0;
}

Prefetcher::Stats Prefetcher::stats() const {
  MutexLock lock(mutex_);
  return {.files = entries_.size(), .asked_bytes = asked_bytes_, .claimed_files = claimed_, .expired_files = expired_};
}

void Prefetcher::Drop(const EntryPtr& entry) {
  entry->is_wanted = false;
  asked_bytes_ -= entry->asked_bytes;
  entries_.remove(entry);
}

uint64_t Prefetcher::NextStep(const Entry& entry) const {
  return std::min(rules_.step_bytes, entry.length_bytes - entry.asked_bytes);
}

Prefetcher::EntryPtr Prefetcher::PickWork(std::vector<EntryPtr>* expired, TimePoint* wake) {
  const TimePoint now = clock_.Now();
  for (auto it = entries_.begin(); it != entries_.end();) {
    const EntryPtr entry = *it++;
    if (entry->expires > now) {
      *wake = std::min(*wake, entry->expires);
      continue;
    }
    expired->push_back(entry);
    ++expired_;
    Drop(entry);
  }
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const uint64_t step = NextStep(**it);
    if (step == 0 || asked_bytes_ + step > rules_.budget_bytes) continue;
    const EntryPtr entry = *it;
    entries_.splice(entries_.end(), entries_, it);
    entry->is_opening = true;
    entry->asked_bytes += step;
    asked_bytes_ += step;
    return entry;
  }
  return nullptr;
}

void Prefetcher::Run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::vector<EntryPtr> expired;  // their readers end outside of the lock
    EntryPtr entry;
    {
      MutexLock lock(mutex_);
      TimePoint wake = TimePoint::max();
      entry = PickWork(&expired, &wake);
      if (entry == nullptr && expired.empty()) {
        changed_.WaitUntil(lock, clock_, wake, stop);
        continue;
      }
    }
    if (entry != nullptr) Open(entry);
  }
}

// Asks for the bytes that PickWork has counted, through the reader that the file has or gets now. While is_opening
// stands nobody else touches the reader.
void Prefetcher::Open(const EntryPtr& entry) {
  bool is_readable = true;
  if (entry->reader == nullptr) {
    Result<std::unique_ptr<hdfs::Reader>> opened = fs_.Open(entry->path, Deadline::After(clock_, rules_.open_limit));
    // Whoever opens the file hears why it cannot be read.
    is_readable = opened.ok() && (*opened)->length_bytes() == entry->length_bytes;
    if (is_readable) entry->reader = *std::move(opened);
  }
  uint64_t start = 0, end = 0;
  {
    MutexLock lock(mutex_);
    end = entry->asked_bytes;
    start = (end - 1) / rules_.step_bytes * rules_.step_bytes;
  }
  if (is_readable) entry->reader->Prefetch({.offset = start, .length = end - start});
  MutexLock lock(mutex_);
  entry->is_opening = false;
  if (!is_readable && entry->is_wanted) Drop(entry);
}

}  // namespace paceline::fuse_hdfs
