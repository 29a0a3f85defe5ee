// What one rank of a channel that stands still waits for: the table from counters to causes.
//
// Internal to the analysis; pure, any thread.
#pragma once

#include <optional>
#include <vector>

#include "analysis/comm_graph.h"

namespace paceline::analysis {

// Something that waits for nobody else, and so may be the reason.
struct Finding {
  Category category = Category::kUnknown;
  std::string cause;
  const ProcessView* culprit = nullptr;
  const ProcessView* edge_from = nullptr;  // both or none
  const ProcessView* edge_to = nullptr;
  int32_t channel = 0;
  double confidence = 0;
  uint64_t progress = 0;  // steps done: the least advanced comes first
  std::vector<Evidence> evidence;
};

// How a rank stands in a stuck operation: all findings of its channels. `stuck` is of `member`; the peers' counters are
// looked up in `comm`.
std::vector<Finding> FindingsOf(const CommGraph& graph, const CommNode& comm, const Member& member,
                                const CallView& stuck);

}  // namespace paceline::analysis
