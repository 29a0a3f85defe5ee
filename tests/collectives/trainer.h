// One rank of an emulated training job: goes through a schedule on its communicators, checks every result, and commits
// the faults that it is told to.
//
// Blocking; one thread, beside the proxy and "GPU" threads that it owns.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/collectives/schedule.h"

namespace paceline::collectives {

// Operations are counted per rank, from 0, over all iterations.
struct Faults {
  std::optional<uint64_t> hang_at;          // does not launch this one, nor any later
  std::optional<uint64_t> hang_in_call_at;  // enters the call and does not come back
  std::optional<uint64_t> kernel_stuck_at;  // launches; the GPU never begins
  std::optional<uint64_t> mismatch_at;      // launches half the elements
  std::optional<uint64_t> swap_at;          // launches this one after the next
  uint64_t extra_compute_us = 0;            // in each compute item
  uint64_t extra_compute_from = 0;          // ... from this operation on
};

struct TrainerOptions {
  RankSettings settings;
  std::vector<std::string> addresses;
  std::vector<CommDescription> comms;
  std::vector<Item> items;
  uint64_t iterations = 1;
  bool checks_results = true;  // false: goes on with wrong ones, as training does
  Faults faults;
  std::string plugin = PACELINE_TRACER;
};

class Trainer {
 public:
  // Connects to the other ranks.
  static Result<std::unique_ptr<Trainer>> Create(TrainerOptions options, UniqueFd listener);
  // kDataLoss when a result is wrong. With a fault it may never return.
  Status Run();

 private:
  struct Pending {
    Item item;
    uint64_t number = 0;  // of the item over all iterations, the same on all ranks
    std::vector<float> input, output;
  };
  explicit Trainer(TrainerOptions options);
  Status DoItem(const Item& item, uint64_t number);
  void LaunchOrHold(std::unique_ptr<Pending> pending);
  void Launch(std::unique_ptr<Pending> pending);
  Status Synchronize();
  Status Check(const Pending& pending) const;
  Communicator* Find(const std::string& name) const;
  bool TakesPart(const Item& item) const;

  TrainerOptions options_;
  tracer::NcclDriver driver_;
  std::vector<std::unique_ptr<Communicator>> comms_;  // before the threads that move their data
  ProxyThread proxy_;
  GpuThread gpu_;
  std::vector<std::unique_ptr<Pending>> pending_;
  std::unique_ptr<Pending> held_;
  uint64_t operation_ = 0;
};

}  // namespace paceline::collectives
