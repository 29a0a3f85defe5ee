// The plugin command from start to stop: takes over what an earlier run left on disk, serves containerd, and ends.
#pragma once

#include <stop_token>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/status.h"
#include "snapshotter/plugin/plugin_config.h"

namespace paceline::snapshotter {

// Runs until `stop`. Ok after a clean stop; otherwise why it could not start. Needs no registry to start, and no FUSE:
// without it every image is pulled. `config` must outlive the call.
Status RunPlugin(const PluginConfig& config, const Clock& clock, Logger& log, std::stop_token stop);

}  // namespace paceline::snapshotter
