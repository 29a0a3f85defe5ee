// Plays the GPU of a rank: one stream of kernels, each with a block per channel that goes through its moves, and waits
// where a slot is not offered or a chunk has not come. Drives the connections within the node itself.
//
// Launch and Synchronize may be called from one application thread.
#pragma once

#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "lib/base/mutex.h"
#include "tests/collectives/edge.h"
#include "tests/collectives/ring_plan.h"

namespace paceline::collectives {

// Work of one channel of a kernel. Edges may be null where no move needs them.
struct Block {
  std::vector<Move> moves;
  const float* input = nullptr;
  float* output = nullptr;
  SendEdge* send = nullptr;
  ReceiveEdge* receive = nullptr;
  bool drives_send = false;  // within the node: no proxy
  bool drives_receive = false;
  size_t next = 0;
  bool has_begun = false;
};

struct Kernel {
  std::vector<Block> blocks;
  bool is_stuck = false;  // a fault: never starts
};

class GpuThread {
 public:
  GpuThread() : thread_([this](std::stop_token stop) { Run(stop); }) {}
  ~GpuThread();

  void Launch(Kernel kernel) EXCLUDES(mutex_);
  // Blocks until all launched kernels have ended. False when `stop` came first.
  bool Synchronize(std::stop_token stop) EXCLUDES(mutex_);

 private:
  void Run(const std::stop_token& stop);
  static bool Advance(Block& block);
  static bool Drive(Block& block);
  static bool DoMove(const Block& block, const Move& move);

  RealClock clock_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Kernel> kernels_ GUARDED_BY(mutex_);
  bool is_running_ GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace paceline::collectives
