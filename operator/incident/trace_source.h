// Asks the agents of a run's nodes for what is in flight and for how fast its ranks go: docs/formats/trace-tables.md.
//
// The controllers of incidents and of slowdowns call it. An agent that does not answer is named in the result and
// nothing more: the analysis works with what there is, and says what it could not see. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/pace.h"
#include "analysis/trace_model.h"
#include "lib/base/clock.h"
#include "lib/kube/resource.h"

namespace paceline::operator_ {

struct TracedNode {
  std::string name;
  std::string address;  // host:port of its agent; empty: not known
};

struct PaceQuestion {
  TracedNode node;
  WallTime since;  // windows that began at or after it
};

struct PaceAnswers {
  std::vector<analysis::RankPace> ranks;
  std::vector<std::string> missing;  // agents that gave no answer, and why
};

class TraceSource {
 public:
  virtual ~TraceSource() = default;

  // The tables of all nodes joined. Blocks until all have answered or `deadline`, which should be a few seconds.
  virtual analysis::Tables TablesOf(const kube::ObjectKey& run, const std::vector<TracedNode>& nodes, Deadline deadline,
                                    std::stop_token stop) = 0;
  // Windows of the ranks on all nodes. An agent that traces no process of the run has answered. Blocks as above.
  virtual PaceAnswers PacesOf(const kube::ObjectKey& run, const std::vector<PaceQuestion>& questions, Deadline deadline,
                              std::stop_token stop) = 0;
};

// Over HTTP, up to 32 agents at a time. `clock` must outlive it.
std::unique_ptr<TraceSource> NewAgentTraceSource(const Clock& clock);

}  // namespace paceline::operator_
