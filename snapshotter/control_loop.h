// Answers one line per connection on a Unix socket until a stop is asked for: how `pacectl image` talks to the process
// that serves a mount. Runs on the calling thread.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::snapshotter {

// Called for each line, one at a time; what it returns is sent back.
using ControlHandler = std::function<std::string(const std::string& line)>;

// `listener` as ListenLocal makes it. Returns when `stop` is requested.
void RunControlLoop(int listener, const ControlHandler& handler, const Clock& clock, std::stop_token stop);

}  // namespace paceline::snapshotter
