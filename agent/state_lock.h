// One agent per state folder: two would serve the same sockets and undo each other's mounts.
#pragma once

#include <stop_token>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace paceline::agent {

// Makes `state_dir` if need be and takes the lock file in it; the lock ends with the descriptor or the process. Waits
// for an earlier agent to end (a rolling update) until `deadline`, then kUnavailable; kCancelled on `stop`.
Result<UniqueFd> LockState(const std::string& state_dir, const Clock& clock, Deadline deadline, std::stop_token stop);

}  // namespace paceline::agent
