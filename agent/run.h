// The agent from start to stop: puts the parts together in order, waits, and takes them apart. main() gives it the
// clock, the log and the stop signal.
#pragma once

#include <stop_token>

#include "agent/config.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/status.h"

namespace paceline::agent {

// Runs until `stop`. Ok after a clean stop; otherwise why it could not start. `config` is complete. The API server need
// not be there: volumes are served without it, and the plan is followed once it comes.
Status RunAgent(const AgentConfig& config, const Clock& clock, Logger& log, std::stop_token stop);

}  // namespace paceline::agent
