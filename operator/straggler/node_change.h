// One step of a policy carried out on its node: read, checked against what the node is now, and patched for that
// version only. Caller: the straggler controller. Blocks until the deadline.
#pragma once

#include <optional>
#include <string>

#include "lib/api/straggler_policy.h"
#include "lib/base/clock.h"
#include "lib/kube/client.h"
#include "operator/straggler/policy_plan.h"

namespace paceline::operator_ {

// The node as the server has it; nothing when it is gone.
Result<std::optional<PolicyNode>> FetchPolicyNode(kube::Reader& reader, const std::string& node,
                                                  const api::StragglerPolicySpec& spec, Deadline deadline);

// True when the node was changed; false when there is nothing to do any more: it is gone, done already, or must not be
// touched by now. kAborted after five lost races.
Result<bool> ChangeNode(kube::Client& client, const api::StragglerPolicy& policy, const PolicyStep& step, WallTime now,
                        Deadline deadline);

}  // namespace paceline::operator_
