#include "lib/hdfs/stripe_writer.h"

#include <algorithm>
#include <utility>

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;

// Orders that wait for one stripe, the one that is carried out included.
constexpr size_t kMaxJobs = 4;
// An order that takes longer than this has no DataNode left that works.
constexpr Duration kJobLimit = 300s;
constexpr Duration kRemoveLimit = 5s;

}  // namespace

StripeLane::StripeLane(std::unique_ptr<Writer> writer, ByteBudget& budget, const Clock& clock)
    : writer_(std::move(writer)), budget_(budget), clock_(clock) {
  thread_ = std::jthread([this](std::stop_token stop) { Run(std::move(stop)); });
}

StripeLane::~StripeLane() {
  thread_.request_stop();
  thread_.join();
  for (const Job& job : jobs_) budget_.Give(job.counted_bytes);
  writer_->Abandon();  // nothing after a Close
}

Status StripeLane::TakeMemory(uint64_t bytes, Deadline deadline) {
  while (!budget_.Take(bytes, std::min(clock_.Now() + kMemoryPatience, deadline.when()))) {
    MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
    if (jobs_.empty()) {
      // Others hold it all, who may wait for us: beyond the limit, by one unit.
      budget_.Force(bytes);
      return Status();
    }
    if (deadline.Expired(clock_)) return DeadlineExceededError("a stripe takes no more bytes");
  }
  return Status();
}

Status StripeLane::Ask(Order order, std::string data, uint64_t counted_bytes, Deadline deadline) {
  MutexLock lock(mutex_);
  Status status;
  while (failure_.ok() && status.ok() && jobs_.size() >= kMaxJobs) {
    if (deadline.Expired(clock_)) {
      status = DeadlineExceededError("a stripe takes no more bytes");
    } else {
      changed_.WaitUntil(lock, clock_, deadline.when());
    }
  }
  if (!failure_.ok()) status = failure_;
  if (!status.ok()) {
    budget_.Give(counted_bytes);
    return status;
  }
  jobs_.push_back({order, std::move(data), counted_bytes});
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
    budget_.Give(job->counted_bytes);
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

Result<std::unique_ptr<StripeWriter>> StripeWriter::Open(Place place, StripeSet set, const CreateOptions& options,
                                                         Deadline deadline) {
  RETURN_IF_ERROR(place.fs.Mkdirs(place.folder, place.folder_mode, MkdirsMode::kParentMustExist, deadline));
  std::unique_ptr<StripeWriter> writer(new StripeWriter(std::move(place), std::move(set), options.stop));
  const Place& made = writer->place_;
  CreateOptions stripe = options;
  stripe.mode = CreateMode::kFailIfExists;
  stripe.permission = 0644;  // the folder decides who comes in
  stripe.stop = writer->stop_.get_token();
  for (uint32_t i = 0; i < writer->set_.files; ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<Writer> file, made.fs.Create(made.folder + "/" + StripeName(i), stripe, deadline));
    writer->lanes_.push_back(std::make_unique<StripeLane>(std::move(file), made.budget, made.clock));
  }
  return writer;
}

StripeWriter::~StripeWriter() {
  stop_.request_stop();
  lanes_.clear();
  place_.budget.Give(filling_counted_);
  if (is_kept_) return;
  // Best effort: the janitor finds what stays.
  place_.fs.Remove(place_.folder, RemoveMode::kRecursive, Deadline::After(place_.clock, kRemoveLimit)).IgnoreError();
}

Status StripeWriter::SendUnit(Deadline deadline) {
  return Lane().Ask(StripeLane::Order::kWrite, std::exchange(filling_, ""), std::exchange(filling_counted_, 0),
                    deadline);
}

Status StripeWriter::Write(std::string_view data, Deadline deadline) {
  while (!data.empty()) {
    const uint64_t into = set_.length_bytes % set_.unit_bytes;
    const std::string_view piece = data.substr(0, set_.unit_bytes - into);
    if (filling_counted_ == 0) {
      RETURN_IF_ERROR(Lane().TakeMemory(set_.unit_bytes - into, deadline));
      filling_counted_ = set_.unit_bytes - into;
      filling_.reserve(filling_counted_);
    }
    filling_.append(piece);
    if (into + piece.size() == set_.unit_bytes) RETURN_IF_ERROR(SendUnit(deadline));
    set_.length_bytes += piece.size();
    data.remove_prefix(piece.size());
  }
  return Status();
}

Status StripeWriter::All(StripeLane::Order order, Deadline deadline) {
  if (!filling_.empty()) RETURN_IF_ERROR(SendUnit(deadline));
  for (const auto& lane : lanes_) RETURN_IF_ERROR(lane->Ask(order, "", 0, deadline));
  for (const auto& lane : lanes_) RETURN_IF_ERROR(lane->Await(deadline));
  return Status();
}

}  // namespace paceline::hdfs
