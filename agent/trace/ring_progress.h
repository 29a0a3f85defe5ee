// What has ended in one ring since the last look: operations with their durations, and what links took.
//
// One per ring, used by the collector's sampling thread; not thread-safe.
#pragma once

#include <map>
#include <vector>

#include "analysis/lateness.h"
#include "analysis/rings/ring_view.h"

namespace paceline::agent {

// A collective, send or receive that is over. Those without network operations are not told to be over, and not here.
struct EndedOperation {
  uint64_t comm = 0;
  std::string comm_name;
  int32_t rank = 0;  // in the communicator
  int32_t world_rank = -1;
  bool is_collective = true;
  uint64_t index = 0;
  std::string func;
  uint64_t bytes = 0;  // of the buffer that the call names
  WallTime start;
  Duration duration{};
};

class RingProgress {
 public:
  // Operations that ended and were not given before, in order for each communicator.
  std::vector<EndedOperation> TakeEnded(const ring::Tables& tables, const analysis::RingTime& time, WallTime now,
                                        const analysis::NameLookup& name);

  // Sends among records of network operations.
  static std::vector<analysis::LinkUse> LinksOf(const ring::Records& records, const ring::Tables& tables,
                                                const analysis::RingTime& time);

 private:
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> next_;  // by index and generation of the communicator
};

}  // namespace paceline::agent
