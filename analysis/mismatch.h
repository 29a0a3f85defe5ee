// Ranks of a communicator that do not call the same collective.
//
// Internal to the analysis; pure, any thread.
#pragma once

#include <optional>

#include "analysis/comm_graph.h"

namespace paceline::analysis {

// The first communicator and place in its order where functions, counts, types or roots differ. The culprits are those
// who differ from most; all of them when there is no majority.
std::optional<Verdict> FindMismatch(const CommGraph& graph);

}  // namespace paceline::analysis
