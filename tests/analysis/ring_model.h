// The counters of a ring collective on all its ranks, moved until nothing moves any more: what tables look like when
// one thing is broken, without processes.
//
// For tests; not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "analysis/trace_model.h"
#include "tests/collectives/ring_plan.h"

namespace paceline::analysis {

enum class Fault {
  kNothing,
  kNeverLaunches,
  kInTheCall,
  kKernelNotStarted,
  kKernelStuck,   // after `at` moves
  kLinkFrozen,    // from `rank` to the next, after `at` steps
  kLinkLoses,     // the same, and the sender does not see it
  kFlushStuck,    // after `at` steps
  kPostsNothing,  // no receives after `at` steps
};

struct RingFault {
  Fault fault = Fault::kNothing;
  uint32_t rank = 0;
  uint64_t at = 0;
};

class RingModel {
 public:
  RingModel(uint32_t ranks, uint32_t channels, collectives::Function function, const RingFault& fault);

  // Every rank's tables, with `still` as the time since anything changed. Empty operations where all have ended.
  Tables Snapshot(Duration still = std::chrono::seconds(5)) const;

 private:
  struct Counters {
    uint64_t steps = 0, posted = 0, ready = 0, moved = 0, done = 0;
  };
  struct Place {
    Counters send, receive;
    std::vector<collectives::Move> moves;
    size_t next = 0;
  };
  bool Is(Fault fault, uint32_t rank) const { return fault_.fault == fault && fault_.rank == rank; }
  bool HasLaunched(uint32_t rank) const { return !Is(Fault::kNeverLaunches, rank) && !Is(Fault::kInTheCall, rank); }
  bool Advance(uint32_t rank, uint32_t channel);
  bool MoveKernel(uint32_t rank, Place& place);
  ProcessView ProcessOf(uint32_t rank, Duration still) const;

  uint32_t ranks_, channels_;
  collectives::Function function_;
  RingFault fault_;
  std::vector<std::vector<Place>> places_;  // by rank, channel
};

}  // namespace paceline::analysis
