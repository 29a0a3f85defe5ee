// The version of the node's containerd, asked on its own socket. Called by CollectNodeFacts. Safe from any thread.
#pragma once

#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::agent {

// "v2.4.2" or as the distribution spells it. Blocks until `deadline` (a real clock's). kUnavailable when nothing
// answers.
Result<std::string> QueryContainerdVersion(const std::string& socket_path, Deadline deadline);

}  // namespace paceline::agent
