// A connection of one channel between two neighbours: the eight slots that a kernel fills or empties, and the state
// machine that moves them over the network step by step.
//
// An edge across nodes is driven by the proxy thread and told to the plugin; one within a node is driven by the "GPU"
// thread itself and told to nobody, as with NVLink. Two threads share an edge: the kernel's side (Ready.., Finish..)
// and the mover's (Progress), which meet in the four counters.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "tests/collectives/connection.h"
#include "tests/tracer/nccl_driver.h"

namespace paceline::collectives {

inline constexpr uint64_t kSlots = 8;

// Who is told of steps. Handles are the plugin's.
struct StepListener {
  tracer::NcclDriver* driver = nullptr;  // null: nobody
  void* context = nullptr;
  void* operation = nullptr;
};

class SendEdge {
 public:
  SendEdge(UniqueFd fd, uint32_t slot_bytes) : end_(std::move(fd)), slots_(kSlots * slot_bytes), bytes_(slot_bytes) {}

  // Kernel: the slot to fill next, null when none is offered.
  char* FreeSlot();
  void FinishFill(uint32_t bytes);

  // Mover: begins an operation of `steps` steps; the last one must be done.
  void Begin(uint64_t steps, const StepListener& listener);
  // One action at most, as NCCL's send loop does in one poll. True when something was done.
  bool Progress();
  bool IsDone() const { return done_ == target_; }
  bool is_broken() const { return end_.is_broken(); }

 private:
  char* Slot(uint64_t step) { return &slots_[step % kSlots * bytes_]; }
  bool PostOrTransmit();

  SendEnd end_;
  std::vector<char> slots_;
  uint32_t bytes_;
  uint32_t sizes_[kSlots] = {};
  std::atomic<uint64_t> posted_{0};  // by the mover, release; the kernel reads it before it fills
  std::atomic<uint64_t> filled_{0};  // by the kernel, release; the mover reads it before it sends
  uint64_t first_ = 0, target_ = 0, transmitted_ = 0, done_ = 0;
  uint64_t last_bytes_ = 0;  // NCCL keeps one size for all steps
  StepListener listener_;
  void* handles_[kSlots] = {};
};

class ReceiveEdge {
 public:
  ReceiveEdge(UniqueFd fd, uint32_t slot_bytes)
      : end_(std::move(fd)), slots_(kSlots * slot_bytes), bytes_(slot_bytes) {}

  // Kernel: the next received chunk, null when it is not there yet.
  const char* FullSlot(uint32_t& bytes);
  void FinishUse() { consumed_.fetch_add(1, std::memory_order_release); }

  void Begin(uint64_t steps, const StepListener& listener);
  // One pass of NCCL's receive loop: the first of post, test, flush and free that does something.
  bool Progress();
  bool IsDone() const { return done_ == target_; }
  bool is_broken() const { return end_.is_broken(); }

 private:
  char* Slot(uint64_t step) { return &slots_[step % kSlots * bytes_]; }
  bool Post();
  bool Free();

  ReceiveEnd end_;
  std::vector<char> slots_;
  uint32_t bytes_;
  uint32_t sizes_[kSlots] = {};
  std::atomic<uint64_t> visible_{0};   // by the mover, release; the kernel reads it before it looks into a slot
  std::atomic<uint64_t> consumed_{0};  // by the kernel, release; the mover reads it before it offers the slot again
  uint64_t first_ = 0, target_ = 0, posted_ = 0, received_ = 0, done_ = 0;
  StepListener listener_;
  void* handles_[kSlots] = {};
};

}  // namespace paceline::collectives
