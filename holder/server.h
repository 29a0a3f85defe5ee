// The holder's one loop: takes requests from the socket, watches the processes, and lets the supervisor do what is due.
// Called by main. One thread.
#pragma once

#include <stop_token>

#include "holder/config.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/status.h"

namespace paceline::holder {

// Serves until `stop`. `config` is complete. Ok after a clean stop; otherwise why it could not start.
Status RunHolder(const HolderConfig& config, const Clock& clock, Logger& log, std::stop_token stop);

}  // namespace paceline::holder
