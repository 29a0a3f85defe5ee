#include "lib/hdfs/fetch_pool.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;

// One range with all its waiting inside; the reader has its own, usually shorter, deadline.
constexpr Duration kAttemptLimit = 60s;
constexpr Duration kLocationLimit = 30s;
// A DataNode that is known not to answer gets no more than this before another one is asked.
constexpr Duration kConnectGrace = 200ms;
constexpr uint32_t kNormalState = 0;

}  // namespace

RangeFetch::~RangeFetch() { pool_.Release(*this); }

FetchPool::FetchPool(Options options, DataNodeClient& datanodes, NameNode& namenode, const Clock& clock)
    : options_(options), datanodes_(datanodes), namenode_(namenode), clock_(clock) {}

FetchPool::~FetchPool() {
  stop_.request_stop();
  std::vector<std::jthread> threads;
  {
    MutexLock lock(mutex_);
    threads.swap(threads_);
    for (const auto& weak : running_) {
      if (const auto fetch = weak.lock()) {
        for (const auto& attempt : fetch->attempts_) attempt->control.Cancel();
      }
    }
    work_.NotifyAll();
  }
  threads.clear();  // joins
}

std::shared_ptr<RangeFetch> FetchPool::Start(std::shared_ptr<FileBlocks> file, ByteRange range, Urgency urgency) {
  std::shared_ptr<RangeFetch> fetch(new RangeFetch(*this, std::move(file), range));
  const uint64_t reserved = reserved_bytes_ += range.length;  // given back by Release, whatever comes
  if (urgency == Urgency::kAhead && reserved > options_.budget_bytes) return nullptr;
  MutexLock lock(mutex_);
  counters_.peak_bytes = std::max(counters_.peak_bytes, reserved);
  (urgency == Urgency::kAhead ? ahead_ : needed_).push_back(fetch);
  if (idle_threads_ == 0 && threads_.size() < static_cast<size_t>(options_.threads)) {
    threads_.emplace_back([this, stop = stop_.get_token()] { Run(stop); });
  }
  work_.NotifyOne();
  return fetch;
}

void FetchPool::Release(RangeFetch& fetch) {
  ReturnBuffer(std::move(fetch.buffer_));
  reserved_bytes_ -= fetch.range.length;
}

Status FetchPool::Wait(RangeFetch& fetch, Deadline deadline) {
  MutexLock lock(mutex_);
  while (!fetch.is_done_ && clock_.Now() < deadline.when()) done_.WaitUntil(lock, clock_, deadline.when());
  if (fetch.is_done_) return fetch.status_;
  return DeadlineExceededError(
      fmt::format("read {} at {}: not there in time", fetch.file_->path(), fetch.range.offset));
}

bool FetchPool::IsDone(const RangeFetch& fetch) const {
  MutexLock lock(mutex_);
  return fetch.is_done_;
}

FetchPool::Counters FetchPool::counters() const {
  MutexLock lock(mutex_);
  return counters_;
}

RangeBuffer FetchPool::TakeBuffer(size_t size) {
  if (size == options_.unit_bytes) {
    MutexLock lock(buffers_mutex_);
    if (!free_buffers_.empty()) {
      RangeBuffer buffer = std::move(free_buffers_.back());
      free_buffers_.pop_back();
      return buffer;
    }
  }
  return {std::unique_ptr<std::byte[]>(new std::byte[size]), size};
}

void FetchPool::ReturnBuffer(RangeBuffer buffer) {
  if (buffer.size != options_.unit_bytes) return;
  MutexLock lock(buffers_mutex_);
  // Enough to go round; more would be memory that nobody uses.
  if (free_buffers_.size() < 8) free_buffers_.push_back(std::move(buffer));
}

void FetchPool::Run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::optional<Work> work;
    {
      MutexLock lock(mutex_);
      TimePoint wake = TimePoint::max();
      work = PickWork(&wake);
      if (!work.has_value()) {
        ++idle_threads_;
        work_.WaitUntil(lock, clock_, wake, stop);
        --idle_threads_;
        continue;
      }
      // Somebody must look after what is left, and after this one too: it may need a second replica.
      if (idle_threads_ > 0) {
        work_.NotifyOne();
      } else if (threads_.size() < static_cast<size_t>(options_.threads) && !stop.stop_requested()) {
        threads_.emplace_back([this, stop] { Run(stop); });
      }
    }
    if (work->is_out_of_replicas) {
      NextRound(*work);
    } else {
      Attempt(*work);
    }
  }
}

std::optional<FetchPool::Work> FetchPool::PickWork(TimePoint* wake) {
  if (auto work = PickQueued(needed_, wake)) return work;
  if (auto work = PickHedge(wake)) return work;
  return PickQueued(ahead_, wake);
}

std::optional<FetchPool::Work> FetchPool::PickQueued(std::deque<std::weak_ptr<RangeFetch>>& queue, TimePoint* wake) {
  for (auto it = queue.begin(); it != queue.end();) {
    const std::shared_ptr<RangeFetch> fetch = it->lock();
    if (fetch == nullptr) {
      it = queue.erase(it);
      continue;
    }
    if (fetch->not_before_ > clock_.Now()) {
      *wake = std::min(*wake, fetch->not_before_);
      ++it;
      continue;
    }
    bool has_candidates = false;
    std::optional<Work> work = TryAttempt(fetch, &has_candidates);
    if (!work.has_value() && !has_candidates) work = Work{.fetch = fetch, .is_out_of_replicas = true};
    if (work.has_value()) {
      queue.erase(it);
      if (!work->is_out_of_replicas) running_.push_back(fetch);
      return work;
    }
    ++it;  // its DataNodes are busy; the next one may have others
  }
  return std::nullopt;
}

std::optional<FetchPool::Work> FetchPool::PickHedge(TimePoint* wake) {
  for (auto it = running_.begin(); it != running_.end();) {
    const std::shared_ptr<RangeFetch> fetch = it->lock();
    if (fetch == nullptr || fetch->is_done_) {
      it = running_.erase(it);
      continue;
    }
    ++it;
    if (fetch->attempts_.size() != 1) continue;
    const RangeFetch::Attempt& first = *fetch->attempts_.front();
    const TimePoint when =
        datanodes_.IsDead(first.node) ? first.started + kConnectGrace : first.started + HedgeAfter(average_);
    if (when > clock_.Now()) {
      *wake = std::min(*wake, when);
      continue;
    }
    bool has_candidates = false;
    if (std::optional<Work> work = TryAttempt(fetch, &has_candidates)) {
      ++counters_.hedges;
      return work;
    }
    if (has_candidates) *wake = std::min(*wake, clock_.Now() + 100ms);
  }
  return std::nullopt;
}

std::optional<FetchPool::Work> FetchPool::TryAttempt(const std::shared_ptr<RangeFetch>& fetch, bool* has_candidates) {
  const auto blocks = fetch->file_->blocks();
  const LocatedBlock* block = FindBlock(*blocks, fetch->range.offset);
  *has_candidates = false;
  if (block == nullptr) return std::nullopt;
  std::vector<ReplicaView> views;
  for (const DataNode& node : block->nodes) {
    const std::string key = node.Key();
    ReplicaView view;
    const auto found = in_flight_.find(key);
    view.in_flight = found == in_flight_.end() ? 0 : found->second;
    view.is_dead = datanodes_.IsDead(node);
    view.has_failed = fetch->failed_nodes_.count(key) > 0;
    view.is_decommissioned = node.admin_state != kNormalState;
    for (const auto& attempt : fetch->attempts_) view.is_asked |= attempt->node.Key() == key;
    *has_candidates |= !view.has_failed && !view.is_asked;
    views.push_back(view);
  }
  const std::optional<size_t> chosen = ChooseReplica(views, options_.lanes_per_datanode);
  if (!chosen.has_value()) return std::nullopt;
  Work work{.fetch = fetch, .attempt = std::make_shared<RangeFetch::Attempt>(), .block = *block};
  work.attempt->node = block->nodes[*chosen];
  work.attempt->started = clock_.Now();
  fetch->attempts_.push_back(work.attempt);
  ++in_flight_[work.attempt->node.Key()];
  return work;
}

void FetchPool::Attempt(Work& work) {
  const ByteRange range = work.fetch->range;
  RangeBuffer buffer = TakeBuffer(range.length);
  const Status status = ReadBlockRange(datanodes_, work.attempt->node, work.block, range.offset - work.block.offset,
                                       std::span(buffer.bytes.get(), range.length), work.attempt->control,
                                       Deadline::After(clock_, kAttemptLimit));
  if (status.ok()) {
    datanodes_.MarkAlive(work.attempt->node);
    Succeed(work, std::move(buffer), clock_.Now() - work.attempt->started);
  } else {
    ReturnBuffer(std::move(buffer));
    Fail(work, status);
  }
}

void FetchPool::Succeed(Work& work, RangeBuffer buffer, Duration took) {
  {
    MutexLock lock(mutex_);
    RangeFetch& fetch = *work.fetch;
    --in_flight_[work.attempt->node.Key()];
    fetch.attempts_.remove(work.attempt);
    ++counters_.ranges;
    counters_.bytes += fetch.range.length;
    if (fetch.range.length == options_.unit_bytes) {
      average_ = average_ == Duration::zero() ? took : (average_ * 7 + took) / 8;
    }
    if (!fetch.is_done_) {
      std::swap(fetch.buffer_, buffer);
      for (const auto& other : fetch.attempts_) {
        // The loser of a hedge that has brought nothing at all is a DataNode that hangs, not one that is slow. Known
        // before anybody has this range: the next one must not wait for that DataNode again.
        if (other->control.bytes_read() == 0) datanodes_.MarkDead(other->node);
        other->control.Cancel();
      }
      Finish(fetch, Status());
    }
    work_.NotifyOne();
  }
  ReturnBuffer(std::move(buffer));
}

void FetchPool::Fail(Work& work, const Status& status) {
  const bool is_corrupt = status.code() == StatusCode::kDataLoss;
  const bool is_token = status.code() == StatusCode::kPermissionDenied;
  const bool is_cancelled = status.code() == StatusCode::kCancelled;
  const bool is_gone = status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kDeadlineExceeded;
  if (is_gone) datanodes_.MarkDead(work.attempt->node);
  if (is_corrupt) {
    // The NameNode makes a new replica; if it does not hear of it, the next reader will tell.
    namenode_.ReportBadBlocks(work.block, work.attempt->node, Deadline::After(clock_, kLocationLimit)).IgnoreError();
  }
  if (is_token) {
    work.fetch->file_->Refresh(namenode_, work.fetch->range.offset, Deadline::After(clock_, kLocationLimit))
        .IgnoreError();
  }
  MutexLock lock(mutex_);
  RangeFetch& fetch = *work.fetch;
  --in_flight_[work.attempt->node.Key()];
  fetch.attempts_.remove(work.attempt);
  if (!is_cancelled) ++counters_.failed_attempts;
  if (is_corrupt) ++counters_.corrupt_replicas;
  if (!fetch.is_done_) {
    if (!is_cancelled) {
      fetch.failed_nodes_.insert(work.attempt->node.Key());
      fetch.status_ = status;
    }
    if (fetch.attempts_.empty()) needed_.push_front(work.fetch);
  }
  work_.NotifyOne();
}

// Every replica has failed: new locations, then all of them again, after a wait.
void FetchPool::NextRound(Work& work) {
  RangeFetch& fetch = *work.fetch;
  const Status refreshed = fetch.file_->Refresh(namenode_, fetch.range.offset, Deadline::After(clock_, kLocationLimit));
  MutexLock lock(mutex_);
  const std::optional<Duration> wait = WaitBeforeRound(fetch.rounds_++);
  const std::string what = fmt::format("read {} at {}", fetch.file_->path(), fetch.range.offset);
  if (refreshed.code() == StatusCode::kNotFound) {
    Finish(fetch, refreshed.Annotate(what));
  } else if (!wait.has_value() || stop_.stop_requested()) {
    const Status& last = fetch.status_;
    const std::string reason = last.ok() ? "no DataNode has it" : last.message();
    Finish(fetch, DataLossError(fmt::format("{}: no replica could be read; the last one: {}", what, reason)));
  } else {
    fetch.failed_nodes_.clear();
    fetch.not_before_ = clock_.Now() + *wait;
    needed_.push_back(work.fetch);
    work_.NotifyOne();
  }
}

void FetchPool::Finish(RangeFetch& fetch, Status status) {
  fetch.status_ = std::move(status);
  fetch.is_done_ = true;
  done_.NotifyAll();
}

}  // namespace paceline::hdfs
