// Which send and receive belongs to which computation, and to which operation of the neighbour stage. Part of the
// dependency graph; called by dependency_graph.cc only. Pure.
#pragma once

#include <vector>

#include "analysis/whatif/dependency_graph.h"

namespace paceline::analysis {

struct PeerToPeerMatching {
  std::vector<int> compute;  // per op: the computation it feeds or follows, -1 for none
  std::vector<int> peer;     // per op: its other half, -1 where it stands alone
};

// Profilers record sends and receives that were never launched ("no-ops"): before the first computation of their
// direction, after the last, or at the model's ends. They stay in their stream but wait for nobody. Rules of the
// published simulator (50 us of tolerance). kInvalidArgument names the stage and the counts that do not fit.
Result<PeerToPeerMatching> MatchPeerToPeer(const DependencyGraph& graph);

// Ops of `type` on `stage` in the order (start, seq).
std::vector<int> OpsInOrder(const DependencyGraph& graph, int stage, std::initializer_list<OpType> types);

}  // namespace paceline::analysis
