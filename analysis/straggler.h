// Which node makes a run slow, window by window: from the shares of slowdown.h to a verdict over several windows.
//
// A rank is compared with ranks that do the same work, and only on other nodes: those of its communicators that do
// collectives and nothing else, that span nodes, and that join no two ranks which also send to each other (stages of a
// pipeline do different work; so a slow stage is never blamed on its node). It is over when it is late in all of them,
// by more than the threshold and by more than their scatter. A node is over when one of its ranks is. Where no such
// communicator is there, or data is missing, the answer is that nothing is known. Pure functions.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "analysis/slowdown.h"

namespace paceline::analysis {

struct StragglerOptions {
  SlowdownOptions windows;
  int required = 4;              // windows in which a node has to be over
  double threshold = 1.1;        // time of a step over that with the node as fast as its peers
  double deviations = 4;         // from the peers, in standard deviations of their scatter
  double least_scatter = 0.003;  // of shares: what is smaller is not measured
};

enum class NodeState {
  kUnknown,  // too little is known, or nobody to compare with
  kHealthy,  // over in no window, and within the threshold in all that are known
  kSuspect,  // over in some; or above the threshold, but no further than its own scatter
  kSlow,     // over in as many as are required, the latest among them
};
const char* NodeStateName(NodeState state);

struct NodeVerdict {
  NodeState state = NodeState::kUnknown;
  std::string why_not;  // with kUnknown
  int windows_over = 0;
  int windows_known = 0;
  int windows = 0;
  // Of the windows in which it is over, the median: what the node costs, its distance in deviations, and shares of
  // own time. Zero without such a window.
  double slowdown = 0;
  double deviations = 0;
  double share = 0;
  double peer_share = 0;
  int communicators = 0;            // in which it was over, in the latest such window
  int communicators_available = 0;  // in which it could be compared
  std::vector<int32_t> ranks;       // that were over in it
  size_t ranks_here = 0;            // of the run on the node
  double missing = 0;               // of all ranks, in the latest known window
};

// By node.
std::map<std::string, NodeVerdict> FindStragglers(std::span<const RankPace> ranks, const ShareTable& shares,
                                                  const StragglerOptions& options);

}  // namespace paceline::analysis
