#include "tests/collectives/gpu_thread.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace paceline::collectives {

GpuThread::~GpuThread() {
  thread_.request_stop();
  thread_.join();
}

void GpuThread::Launch(Kernel kernel) {
  MutexLock lock(mutex_);
  kernels_.push_back(std::move(kernel));
  changed_.NotifyAll();
}

bool GpuThread::Synchronize(std::stop_token stop) {
  MutexLock lock(mutex_);
  while (is_running_ || !kernels_.empty()) {
    if (stop.stop_requested()) return false;
    changed_.WaitUntil(lock, clock_, TimePoint::max(), stop);
  }
  return true;
}

bool GpuThread::DoMove(const Block& block, const Move& move) {
  uint32_t bytes = 0;
  const char* received = move.receives ? block.receive->FullSlot(bytes) : nullptr;
  char* slot = move.sends ? block.send->FreeSlot() : nullptr;
  if ((move.receives && received == nullptr) || (move.sends && slot == nullptr)) return false;
  const uint64_t count = move.receives ? std::min<uint64_t>(move.count, bytes / sizeof(float)) : move.count;
  std::vector<float> chunk(count);
  if (received != nullptr) std::memcpy(chunk.data(), received, count * sizeof(float));
  for (uint64_t i = 0; move.uses_input && i < count; i++) chunk[i] += block.input[move.input_offset + i];
  if (move.writes_output) std::copy(chunk.begin(), chunk.end(), block.output + move.output_offset);
  if (slot != nullptr) {
    std::memcpy(slot, chunk.data(), count * sizeof(float));
    block.send->FinishFill(static_cast<uint32_t>(count * sizeof(float)));
  }
  if (move.receives) block.receive->FinishUse();
  return true;
}

bool GpuThread::Drive(Block& block) {
  if (!block.has_begun) {
    block.has_begun = true;
    uint64_t sends = 0, receives = 0;
    for (const Move& move : block.moves) {
      sends += move.sends ? 1 : 0;
      receives += move.receives ? 1 : 0;
    }
    if (block.drives_send) block.send->Begin(sends, {});
    if (block.drives_receive) block.receive->Begin(receives, {});
  }
  const bool has_sent = block.drives_send && block.send->Progress();
  const bool has_received = block.drives_receive && block.receive->Progress();
  return has_sent || has_received;
}

bool GpuThread::Advance(Block& block) {
  bool is_any = Drive(block);
  if (block.next < block.moves.size() && DoMove(block, block.moves[block.next])) {
    block.next++;
    is_any = true;
  }
  return is_any;
}

void GpuThread::Run(const std::stop_token& stop) {
  while (true) {
    Kernel kernel;
    {
      MutexLock lock(mutex_);
      while (kernels_.empty() && !stop.stop_requested()) changed_.WaitUntil(lock, clock_, TimePoint::max(), stop);
      if (stop.stop_requested()) return;
      kernel = std::move(kernels_.front());
      kernels_.pop_front();
      is_running_ = true;
    }
    bool is_open = true;
    while (is_open && !stop.stop_requested()) {
      bool is_any = false;
      is_open = kernel.is_stuck;
      for (Block& block : kernel.blocks) {
        if (!kernel.is_stuck) is_any = Advance(block) || is_any;
        is_open = is_open || block.next < block.moves.size() || (block.drives_send && !block.send->IsDone()) ||
                  (block.drives_receive && !block.receive->IsDone());
      }
      if (!is_any && is_open) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    MutexLock lock(mutex_);
    is_running_ = false;
    changed_.NotifyAll();
  }
}

}  // namespace paceline::collectives
