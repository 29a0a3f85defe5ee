// How far each communicator of a run is, and which of its ranks is behind: what `pacectl trace top` shows.
//
// A summary of trace tables, not a verdict: root_cause.h says why. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/trace_model.h"

namespace paceline::analysis {

// A rank of a communicator and what it has done there.
struct RankProgress {
  int32_t world_rank = -1;
  int32_t rank = 0;  // in the communicator
  std::string node, host;
  ProcessState state = ProcessState::kUnknown;
  uint64_t operations = 0;  // launched
  uint64_t steps = 0;       // done by its network operations that go on
  bool operator==(const RankProgress&) const = default;
};

struct CommProgress {
  uint64_t id = 0;
  std::string name;  // of the first rank that has one
  int32_t ranks = 0;
  size_t seen = 0;  // ranks that the tables have
  uint64_t least_operations = 0, most_operations = 0;
  std::string function;  // of the newest operation that goes on, else empty
  size_t waiting = 0;    // ranks in which an operation goes on
  Duration still{};      // since any of the ranks in an operation last moved
  std::optional<RankProgress>
      behind;  // least operations, then not running, then least steps; absent when all are equal
};

// In the order of the tables; communicators that have no id yet, and those that every rank has closed, are left out.
std::vector<CommProgress> ProgressOf(const Tables& tables);

}  // namespace paceline::analysis
