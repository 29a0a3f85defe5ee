#include "lib/hdfs/parallel_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/hdfs/path_text.h"
#include "lib/hdfs/write_plan.h"

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;

// A segment that takes longer than this has no DataNode left that works.
constexpr Duration kSegmentLimit = 300s;
constexpr uint64_t kMemoryStep = 1 << 20;

}  // namespace

ParallelWriter::ParallelWriter(std::shared_ptr<WriteContext> context, OpenFile file, Target target)
    : context_(std::move(context)),
      file_(std::move(file)),
      target_(std::move(target)),
      on_stop_(target_.options.stop, [this] { Stop(); }) {
  lease_.emplace(context_->leases);
}

ParallelWriter::~ParallelWriter() { Abandon(); }

Status ParallelWriter::Usable() const {
  if (!failure_.ok()) return failure_;
  return is_closed_ ? InvalidArgumentError(target_.path + ": the writer is closed") : Status();
}

Status ParallelWriter::Write(std::span<const std::byte> data, Deadline deadline) {
  RETURN_IF_ERROR(Usable());
  std::string_view rest(reinterpret_cast<const char*>(data.data()), data.size());
  while (!rest.empty()) {
    const uint64_t size = SegmentBytes(next_number_, context_->segment_bytes, file_.block_size_bytes);
    const std::string_view piece = rest.substr(0, std::min(size - filling_.size(), kMemoryStep));
    if (const Status status = TakeMemory(piece.size(), deadline); !status.ok()) return Fail(status);
    // TakeMemory may have sent what was there; then the piece begins a new segment, which is at least as large.
    if (filling_.capacity() < size) filling_.reserve(size);
    filling_.append(piece);
    rest.remove_prefix(piece.size());
    position_ += piece.size();
    if (filling_.size() < size) continue;
    const Status status = Dispatch(BlockWriter::Durability::kMemory, deadline);
    if (!status.ok()) return Fail(status);
  }
  return Status();
}

Status ParallelWriter::TakeMemory(uint64_t bytes, Deadline deadline) {
  while (!context_->budget.Take(bytes, std::min(context_->clock.Now() + kMemoryPatience, deadline.when()))) {
    RETURN_IF_ERROR(Reap());
    if (stop_.stop_requested()) return Stopped();
    // As long as segments of ours are under way they will give memory back.
    if (!in_flight_.empty()) {
      if (context_->clock.Now() < deadline.when()) continue;
      return DeadlineExceededError("write " + target_.path + ": the DataNodes take no more bytes");
    }
    // The budget may be held by segments that are being filled, ours among them, which nobody else can free.
    if (filling_.empty()) {
      context_->budget.Force(bytes);
      return Status();
    }
    RETURN_IF_ERROR(Dispatch(BlockWriter::Durability::kMemory, deadline));
  }
  return Status();
}

Status ParallelWriter::Dispatch(BlockWriter::Durability durability, Deadline deadline) {
  RETURN_IF_ERROR(AwaitInFlight(static_cast<size_t>(context_->pipelines) - 1, deadline));
  auto segment = std::make_unique<Segment>();
  segment->number = next_number_++;
  segment->durability = durability;
  segment->data.swap(filling_);
  segment->path = file_.path;
  if (segment->number > 0) {
    segment->path = SiblingOf(target_.path, PartFileName(NameOf(target_.path), target_.id, segment->number));
    parts_.push_back(segment->path);
  }
  Segment* running = segment.get();
  segment->thread = std::jthread([this, running] { RunSegment(*running); });
  MutexLock lock(mutex_);
  in_flight_.push_back(std::move(segment));
  return Status();
}

void ParallelWriter::RunSegment(Segment& segment) {
  Status status = SendSegment(segment, Deadline::After(context_->clock, kSegmentLimit));
  context_->budget.Give(segment.data.size());
  std::string().swap(segment.data);
  MutexLock lock(mutex_);
  segment.status = std::move(status);
  segment.is_done = true;
  changed_.NotifyAll();
}

Status ParallelWriter::SendSegment(Segment& segment, Deadline deadline) {
  OpenFile file = file_;
  file.stop = stop_.get_token();
  if (segment.number > 0) {
    const NameNode::CreateSettings settings{.permission = target_.options.permission,
                                            .replication = file_.replication,
                                            .block_size_bytes = file_.block_size_bytes};
    ASSIGN_OR_RETURN(file, context_->namenode.Create(segment.path, settings, deadline));
    file.stop = stop_.get_token();
  }
  BlockJob job{.data = segment.data, .durability = segment.durability, .stop = stop_.get_token()};
  job.attach = [this, &segment](BlockWriter* pipeline) {
    MutexLock lock(mutex_);
    segment.pipeline = pipeline;
    // Abandon saw no pipeline yet when it came before.
    if (pipeline != nullptr && stop_.stop_requested()) pipeline->Abort();
  };
  ASSIGN_OR_RETURN(segment.block, WriteWholeBlock(*context_, file, job, deadline));
  return segment.number == 0 ? Status() : context_->namenode.Complete(file, segment.block, deadline);
}

Status ParallelWriter::Reap() {
  std::vector<std::unique_ptr<Segment>> done;
  {
    MutexLock lock(mutex_);
    for (auto it = in_flight_.begin(); it != in_flight_.end();) {
      if ((*it)->is_done) {
        done.push_back(std::move(*it));
        it = in_flight_.erase(it);
      } else {
        ++it;
      }
    }
  }
  for (auto& segment : done) {
    segment->thread.join();
    if (failure_.ok() && !segment->status.ok()) failure_ = segment->status;
    if (segment->number == 0) first_block_ = segment->block;
  }
  return failure_;
}

Status ParallelWriter::AwaitInFlight(size_t at_most, Deadline deadline) {
  while (true) {
    RETURN_IF_ERROR(Reap());
    if (in_flight_.size() <= at_most) return Status();
    MutexLock lock(mutex_);
    const auto any_done = [&] {
      return std::any_of(in_flight_.begin(), in_flight_.end(), [](const auto& segment) { return segment->is_done; });
    };
    while (!any_done()) {  // also after a stop, which ends all of them
      if (context_->clock.Now() >= deadline.when()) {
        return DeadlineExceededError("write " + target_.path + ": the DataNodes take no more bytes");
      }
      changed_.WaitUntil(lock, context_->clock, deadline.when());
    }
  }
}

Status ParallelWriter::FlushAs(BlockWriter::Durability durability, Deadline deadline) {
  RETURN_IF_ERROR(Usable());
  if (!filling_.empty()) {
    if (const Status status = Dispatch(durability, deadline); !status.ok()) return Fail(status);
  }
  const Status status = AwaitInFlight(0, deadline);
  return status.ok() ? status : Fail(status);
}

Status ParallelWriter::Close(Deadline deadline) {
  RETURN_IF_ERROR(FlushAs(BlockWriter::Durability::kMemory, deadline));
  Status status = context_->namenode.Complete(file_, first_block_, deadline);
  if (status.ok() && !parts_.empty()) status = Join(deadline);
  if (status.ok()) {
    const RenameMode mode =
        target_.options.mode == CreateMode::kOverwrite ? RenameMode::kOverwrite : RenameMode::kFailIfExists;
    status = context_->namenode.Rename2(file_.path, target_.path, mode, deadline);
  }
  if (!status.ok()) return Fail(status);
  is_closed_ = true;
  lease_.reset();
  return status;
}

Status ParallelWriter::Join(Deadline deadline) {
  for (const auto& [first, last] : ConcatBatches(parts_.size())) {
    const std::span<const std::string> batch(parts_.data() + first, last - first);
    const Status status = context_->namenode.Concat(file_.path, batch, deadline);
    if (status.ok()) continue;
    const RemoteErrorKind kind = KindOf(status);
    if (kind != RemoteErrorKind::kConcatRefused && kind != RemoteErrorKind::kNoSuchMethod) return status;
    parts_.erase(parts_.begin(), parts_.begin() + static_cast<ptrdiff_t>(first));
    return JoinByCopy(deadline);
  }
  parts_.clear();
  return Status();
}

void ParallelWriter::Stop() {
  stop_.request_stop();
  MutexLock lock(mutex_);
  for (const auto& segment : in_flight_) {
    if (segment->pipeline != nullptr) segment->pipeline->Abort();
  }
}

void ParallelWriter::Abandon() {
  if (is_closed_) return;
  is_closed_ = true;
  Stop();
  for (auto& segment : in_flight_) segment->thread.join();
  {
    MutexLock lock(mutex_);
    in_flight_.clear();
  }
  context_->budget.Give(filling_.size());
  filling_.clear();
  // Best effort: what stays is found by the janitor, since the names are ours.
  const Deadline deadline = Deadline::After(context_->clock, kAbandonLimit);
  parts_.push_back(file_.path);
  for (const std::string& path : parts_) {
    context_->namenode.Delete(path, RemoveMode::kFileOrEmptyDirectory, deadline).status().IgnoreError();
  }
  lease_.reset();
}

}  // namespace paceline::hdfs
