#include "lib/blocks/image/piece_pipe.h"

#include <algorithm>
#include <cstring>

namespace paceline::blocks {

Status PiecePipe::Put(std::string piece, const std::stop_token& stop) {
  if (piece.empty()) return Status();
  MutexLock lock(mutex_);
  while (waiting_bytes_ > max_waiting_bytes_ && !stop.stop_requested()) has_room_.Wait(lock);
  if (stop.stop_requested()) return CancelledError("nobody reads on");
  waiting_bytes_ += piece.size();
  ready_.push_back(std::move(piece));
  has_piece_.NotifyOne();
  return Status();
}

void PiecePipe::Finish(Status end) {
  MutexLock lock(mutex_);
  is_done_ = true;
  end_ = std::move(end);
  has_piece_.NotifyOne();
}

void PiecePipe::Wake() {
  {
    // Under the lock, so that a writer that has just looked at the stop token cannot miss it.
    MutexLock lock(mutex_);
  }
  has_room_.NotifyAll();
}

Result<size_t> PiecePipe::Read(std::span<char> out) {
  if (at_ == piece_.size()) {
    MutexLock lock(mutex_);
    while (ready_.empty() && !is_done_) has_piece_.Wait(lock);
    if (ready_.empty()) {
      if (!end_.ok()) return end_;
      return size_t{0};
    }
    piece_ = std::move(ready_.front());
    ready_.pop_front();
    waiting_bytes_ -= piece_.size();
    at_ = 0;
    has_room_.NotifyOne();
  }
  const size_t size = std::min(out.size(), piece_.size() - at_);
  std::memcpy(out.data(), piece_.data() + at_, size);
  at_ += size;
  return size;
}

}  // namespace paceline::blocks
