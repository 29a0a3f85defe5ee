// What `paceline-snapshotter` does to mounts that are there: taking them down, asking them. pacectl runs these.
#pragma once

#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "snapshotter/kernel_mounts.h"

namespace paceline::snapshotter {

// Asks the process that serves `directory` to take the mount down, or does it when nobody serves it any more. kNotFound
// when no image is mounted there; kAborted while it is in use (with Detach::kNo).
Status UnmountImage(const std::string& state_folder, const std::string& directory, Detach detach, const Clock& clock);

// Sends a line to the process that serves `directory` and returns its answer. kUnavailable when there is none.
Result<std::string> AskMount(const std::string& state_folder, const std::string& directory, const std::string& line,
                             const Clock& clock);

}  // namespace paceline::snapshotter
