#include "lib/hdfs/stripe_writer.h"

#include <algorithm>

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;

// Orders that wait for one stripe, the one that is carried out included.
constexpr size_t kMaxJobs = 4;
// An order that takes longer than this has no DataNode left that works.
constexpr Duration kJobLimit = 300s;
constexpr Duration kRemoveLimit = 5s;

}  // namespace

StripeLane::StripeLane(std::unique_ptr<Writer> writer, const Clock& clock) : writer_(std::move(writer)), clock_(clock) {
  thread_ = std::jthread([this](std::stop_token stop) { Run(std::move(stop)); });
}

StripeLane::~StripeLane() {
  thread_.request_stop();
  thread_.join();
  writer_->Abandon();  // nothing after a Close
}

Status StripeLane::Ask(Order order, std::string data, Deadline deadline) {
  MutexLock lock(mutex_);
  while (failure_.ok() && jobs_.size() >= kMaxJobs) {
    if (deadline.Expired(clock_)) return DeadlineExceededError("a stripe takes no more bytes");
    changed_.WaitUntil(lock, clock_, deadline.when());
  }
  if (!failure_.ok()) return failure_;
  jobs_.push_back({order, std::move(data)});
  changed_.NotifyAll();
  return Status();
}

Status StripeLane::Await(Deadline deadline) {
  MutexLock lock(mutex_);
  while (failure_.ok() && !jobs_.empty()) {
    if (deadline.Expired(clock_)) return DeadlineExceededError("a stripe is not safe in time");
    changed_.WaitUntil(lock, clock_, deadline.when());
  }
  return failure_;
}

void StripeLane::Run(std::stop_token stop) {
  while (true) {
    const Job* job;
    {
      MutexLock lock(mutex_);
      while (jobs_.empty() && !stop.stop_requested()) changed_.WaitUntil(lock, clock_, TimePoint::max(), stop);
      if (stop.stop_requested()) return;
      job = &jobs_.front();  // stays where it is: a deque moves nothing when more is put behind
    }
    Status status = Do(*job);
    MutexLock lock(mutex_);
    jobs_.pop_front();
    if (!status.ok()) failure_ = std::move(status);
    changed_.NotifyAll();
    if (!failure_.ok()) return;
  }
}

Status StripeLane::Do(const Job& job) {
  const Deadline deadline = Deadline::After(clock_, kJobLimit);
  switch (job.order) {
    case Order::kWrite: return writer_->Write(std::as_bytes(std::span(job.data)), deadline);
    case Order::kFlush: return writer_->Flush(deadline);
    case Order::kSync: return writer_->Sync(deadline);
    case Order::kClose: return writer_->Close(deadline);
  }
  return InternalError("no such order");
}

Result<std::unique_ptr<StripeWriter>> StripeWriter::Open(FileSystem& fs, const Clock& clock, std::string folder_path,
                                                         StripeSet set, FileMode folder_mode,
                                                         const CreateOptions& options, Deadline deadline) {
  RETURN_IF_ERROR(fs.Mkdirs(folder_path, folder_mode, MkdirsMode::kParentMustExist, deadline));
  std::unique_ptr<StripeWriter> writer(new StripeWriter(fs, clock, std::move(folder_path), std::move(set)));
  CreateOptions stripe = options;
  stripe.mode = CreateMode::kFailIfExists;
  stripe.permission = 0644;  // the folder decides who comes in
  for (uint32_t i = 0; i < writer->set_.files; ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<Writer> file,
                     fs.Create(writer->folder_path_ + "/" + StripeName(i), stripe, deadline));
    writer->lanes_.push_back(std::make_unique<StripeLane>(std::move(file), clock));
  }
  return writer;
}

StripeWriter::~StripeWriter() {
  lanes_.clear();
  if (is_kept_) return;
  // Best effort: the janitor finds what stays.
  fs_.Remove(folder_path_, RemoveMode::kRecursive, Deadline::After(clock_, kRemoveLimit)).IgnoreError();
}

Status StripeWriter::Write(std::string_view data, Deadline deadline) {
  while (!data.empty()) {
    const uint64_t into = set_.length_bytes % set_.unit_bytes;
    const std::string_view piece = data.substr(0, set_.unit_bytes - into);
    if (filling_.empty()) filling_.reserve(set_.unit_bytes - into);
    filling_.append(piece);
    const uint64_t stripe = set_.length_bytes / set_.unit_bytes % set_.files;
    if (into + piece.size() == set_.unit_bytes) {
      RETURN_IF_ERROR(lanes_[stripe]->Ask(StripeLane::Order::kWrite, std::move(filling_), deadline));
      filling_ = std::string();
    }
    set_.length_bytes += piece.size();
    data.remove_prefix(piece.size());
  }
  return Status();
}

Status StripeWriter::All(StripeLane::Order order, Deadline deadline) {
  if (!filling_.empty()) {
    const uint64_t stripe = set_.length_bytes / set_.unit_bytes % set_.files;
    RETURN_IF_ERROR(lanes_[stripe]->Ask(StripeLane::Order::kWrite, std::move(filling_), deadline));
    filling_ = std::string();
  }
  for (const auto& lane : lanes_) RETURN_IF_ERROR(lane->Ask(order, "", deadline));
  for (const auto& lane : lanes_) RETURN_IF_ERROR(lane->Await(deadline));
  return Status();
}

}  // namespace paceline::hdfs
