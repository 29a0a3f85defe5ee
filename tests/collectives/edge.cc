#include "tests/collectives/edge.h"

#include <algorithm>

namespace paceline::collectives {

namespace {

void* StartStep(const StepListener& listener, uint64_t step) {
  if (listener.driver == nullptr) return nullptr;
  return listener.driver->Step(listener.context, listener.operation, static_cast<int>(step));
}

void Record(const StepListener& listener, void* handle, int state, uint64_t bytes) {
  // NCCL drops what belongs to a step without a handle.
  if (listener.driver != nullptr && handle != nullptr) listener.driver->Record(handle, state, bytes);
}

void Stop(const StepListener& listener, void*& handle) {
  if (listener.driver != nullptr && handle != nullptr) listener.driver->Stop(handle);
  handle = nullptr;
}

}  // namespace

char* SendEdge::FreeSlot() {
  const uint64_t next = filled_.load(std::memory_order_relaxed);  // the kernel's own counter
  return next < posted_.load(std::memory_order_acquire) ? Slot(next) : nullptr;
}

void SendEdge::FinishFill(uint32_t bytes) {
  const uint64_t next = filled_.load(std::memory_order_relaxed);  // the kernel's own counter
  sizes_[next % kSlots] = bytes;
  filled_.store(next + 1, std::memory_order_release);
}

void SendEdge::Begin(uint64_t steps, const StepListener& listener) {
  first_ = target_;
  target_ += steps;
  listener_ = listener;
}

bool SendEdge::PostOrTransmit() {
  const uint64_t posted = posted_.load(std::memory_order_relaxed);  // the mover's own counter
  if (posted < std::min(target_, done_ + kSlots)) {
    handles_[posted % kSlots] = StartStep(listener_, posted - first_);
    Record(listener_, handles_[posted % kSlots], kStateStepSendGpuWait, last_bytes_);
    posted_.store(posted + 1, std::memory_order_release);
    return true;
  }
  if (transmitted_ >= filled_.load(std::memory_order_acquire)) return false;
  void* handle = handles_[transmitted_ % kSlots];
  if (listener_.driver != nullptr && listener_.driver->version() >= 4) {
    Record(listener_, handle, kStateStepSendPeerWait, last_bytes_);
  }
  const uint32_t bytes = sizes_[transmitted_ % kSlots];
  if (!end_.TrySend(Slot(transmitted_), bytes)) return false;
  last_bytes_ = bytes;
  transmitted_++;
  Record(listener_, handle, kStateStepSendWait, bytes);
  return true;
}

bool SendEdge::Progress() {
  if (IsDone() || is_broken()) return false;
  if (PostOrTransmit()) return true;
  if (done_ == transmitted_ || !end_.TestDone()) return false;
  Stop(listener_, handles_[done_ % kSlots]);
  done_++;
  return true;
}

const char* ReceiveEdge::FullSlot(uint32_t& bytes) {
  const uint64_t next = consumed_.load(std::memory_order_relaxed);  // the kernel's own counter
  if (next >= visible_.load(std::memory_order_acquire)) return nullptr;
  bytes = sizes_[next % kSlots];
  return Slot(next);
}

void ReceiveEdge::Begin(uint64_t steps, const StepListener& listener) {
  first_ = target_;
  target_ += steps;
  listener_ = listener;
}

bool ReceiveEdge::Post() {
  if (posted_ >= std::min(target_, done_ + kSlots)) return false;
  // Started again on each poll until the network takes the receive.
  handles_[posted_ % kSlots] = StartStep(listener_, posted_ - first_);
  if (!end_.TryPost(Slot(posted_), bytes_)) return false;
  Record(listener_, handles_[posted_ % kSlots], kStateStepRecvWait, 0);
  posted_++;
  return true;
}

bool ReceiveEdge::Free() {
  bool is_any = false;
  while (done_ < consumed_.load(std::memory_order_acquire)) {
    Stop(listener_, handles_[done_ % kSlots]);
    done_++;
    is_any = true;
  }
  return is_any;
}

bool ReceiveEdge::Progress() {
  if (IsDone() || is_broken()) return false;
  if (Post()) return true;
  if (received_ < posted_) {
    if (const std::optional<uint32_t> bytes = end_.TestDone()) {
      sizes_[received_ % kSlots] = *bytes;
      Record(listener_, handles_[received_ % kSlots], kStateStepRecvFlushWait, *bytes);
      received_++;
      return true;
    }
  }
  const uint64_t visible = visible_.load(std::memory_order_relaxed);  // the mover's own counter
  if (visible < received_) {
    Record(listener_, handles_[visible % kSlots], kStateStepRecvGpuWait, 0);
    visible_.store(visible + 1, std::memory_order_release);
    return true;
  }
  return Free();
}

}  // namespace paceline::collectives
