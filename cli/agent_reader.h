// Asks the agents of some nodes, as people reach them: through the API server (pods/proxy in the agents' namespace), or
// straight at the address that they tell in their NodePlan, from a machine within the cluster's network.
//
// Called by `pacectl trace`. An agent that gives no answer is a Status in its place: the others still count.
#pragma once

#include <string>
#include <vector>

#include "cli/session.h"

namespace paceline::cli {

enum class AgentRoute { kThroughApiServer, kDirect };

struct AgentAnswer {
  std::string node;
  Result<std::string> body;
};

// GETs `target` ("/v1/traces/NAMESPACE/RUN/tables", encoded) of the agent of each of `nodes`, up to 16 at a time, in
// their order. An error of its own only when the NodePlans, or for kThroughApiServer the agents' pods, cannot be read.
// Blocks until all have answered or `deadline`.
Result<std::vector<AgentAnswer>> AskAgents(Session& session, const std::vector<std::string>& nodes,
                                           const std::string& target, AgentRoute route, const Clock& clock,
                                           Deadline deadline);

}  // namespace paceline::cli
