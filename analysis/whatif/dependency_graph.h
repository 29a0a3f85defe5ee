// What waits for what in one training step: the operations of one data-parallel rank's pipeline and their order, which
// is the same in every step and on every data-parallel rank. After the what-if straggler study (arXiv 2505.05713) and
// its published simulator: in-stream order, compute to communication, groups that end together.
//
// Built once per trace from its rows, then read by all simulations. Pure; thread-safe to read.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/whatif/op_type.h"
#include "analysis/whatif/trace.h"
#include "lib/base/result.h"

namespace paceline::analysis {

struct GraphOp {
  OpType type = OpType::kForwardCompute;
  int16_t stage = 0;
  int32_t seq = 0;
  int16_t mc = -1;
  int16_t gmc = -1;
  double start = 0;  // as measured where the graph was taken from; decides the order within a stream
  double end = 0;
};

// Operations that end together: the two of a send, the members of a collective, or one alone.
struct GraphUnit {
  std::vector<int> ops;
  bool is_group = false;            // its duration is that of the transfer, counted from the last start
  bool waits_for_dp_ranks = false;  // the last start over all data-parallel ranks
};

struct DependencyGraph {
  std::vector<GraphOp> ops;                    // ordered by (stage, type, seq)
  std::vector<std::vector<int>> dependencies;  // per op: the ops that must have ended
  std::vector<GraphUnit> units;                // in an order in which they can be worked off
  std::vector<int> unit_of;                    // per op
  int pp_size = 1;

  // Index of an op, -1 when there is none.
  int Find(OpType type, int stage, int32_t seq) const;

  // Dependencies, groups: what two traces of one job must have the same.
  size_t edge_count() const;
};

// From the rows of data-parallel rank 0 in the smallest step among those with the usual number of rows.
// kInvalidArgument says what does not fit together: a receive without its send, a circle.
Result<DependencyGraph> BuildDependencyGraph(const StepTrace& trace);

}  // namespace paceline::analysis
