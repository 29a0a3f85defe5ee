// From what each run says of a node to one finding, and to the Incident that tells it. Pure functions; callers: the
// straggler controller.
#pragma once

#include <string>
#include <vector>

#include "analysis/straggler.h"
#include "lib/api/incident.h"
#include "lib/api/straggler_policy.h"
#include "lib/api/training_run.h"

namespace paceline::operator_ {

// What the runs on a node say together.
struct CombinedVerdict {
  analysis::NodeState state = analysis::NodeState::kUnknown;
  size_t worst = 0;   // place of the run that the node costs most; of those that say kSlow when there is one
  int witnesses = 0;  // communicators of all runs in which it is over
  int available = 0;  // in which it could be compared
  int runs = 0;       // that know anything of it
};

// `minimum_communicators`: in how many it must be over, where so many are available. A run that finds the node healthy
// counts against it.
CombinedVerdict Combine(const std::vector<analysis::NodeVerdict>& verdicts, int64_t minimum_communicators);

// Verdict, evidence and what was not visible. `pods`: those of the run on the node.
api::IncidentStatus StragglerStatus(const std::string& node, const analysis::NodeVerdict& verdict,
                                    const CombinedVerdict& combined, const std::vector<std::string>& pods,
                                    const api::StragglerPolicySpec& policy);

// The same refusal, or success, is not noted twice in a row. True when it was added.
bool AddAction(api::IncidentStatus& status, api::IncidentAction action);

}  // namespace paceline::operator_
