// Asks the agents of a run's nodes for what is in flight: docs/formats/trace-tables.md.
//
// The incident controller calls it. An agent that does not answer is named in the result and nothing more: the analysis
// works with what there is, and says what it could not see. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/trace_model.h"
#include "lib/base/clock.h"
#include "lib/kube/resource.h"

namespace paceline::operator_ {

struct TracedNode {
  std::string name;
  std::string address;  // host:port of its agent; empty: not known
};

class TraceSource {
 public:
  virtual ~TraceSource() = default;

  // The tables of all nodes joined. Blocks until all have answered or `deadline`, which should be a few seconds.
  virtual analysis::Tables TablesOf(const kube::ObjectKey& run, const std::vector<TracedNode>& nodes, Deadline deadline,
                                    std::stop_token stop) = 0;
};

// Over HTTP, up to 32 agents at a time. `clock` must outlive it.
std::unique_ptr<TraceSource> NewAgentTraceSource(const Clock& clock);

}  // namespace paceline::operator_
