// `pacectl node probe`: asks for a probe of a node by its NodePlan, waits for it and shows what was measured. Blocks
// until the session's deadline.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/output.h"
#include "cli/session.h"
#include "lib/api/node_plan.h"

namespace paceline::cli {

struct NodeProbeOptions {
  std::string node;
  std::vector<std::string> checks;  // names; empty: all
  bool only_last = false;           // show what is known, ask for nothing
};

// The plan with the status of the probe that was asked for, or, with `only_last`, of the last one. kNotFound for no
// such node (or none that was ever probed), kInvalidArgument for a check that is none, kDeadlineExceeded when it has
// not come in time, with the reason that the agent gives: it stays asked for.
Result<api::NodePlan> ProbeNode(Session& session, const NodeProbeOptions& options, const Clock& clock);

// The request that asks for one more probe than `plan` has had, with up to three idle nodes of `plans` as peers.
api::ProbeRequest NextProbe(const api::NodePlan& plan, const std::vector<api::NodePlan>& plans,
                            std::vector<api::ProbeCheck> checks);

Table ProbeTable(const api::NodePlan& plan);
// {"node", "probe": as in the plan's status}.
nlohmann::json ProbeValue(const api::NodePlan& plan);

}  // namespace paceline::cli
