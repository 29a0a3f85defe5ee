// The serve command: opens a converted image, mounts it, answers on its control socket and takes it down at the end.
#pragma once

#include <functional>
#include <string>

#include "lib/base/log.h"
#include "lib/base/stop_signal.h"
#include "snapshotter/config.h"

namespace paceline::snapshotter {

// Blocks until `stop` or the control command "stop". `on_mounted` runs once the image can be used; its failure ends the
// command. `clock` and `log` are borrowed.
Status Serve(const ServeConfig& config, const Clock& clock, Logger& log, StopSignal& stop,
             const std::function<Status(const std::string& summary)>& on_mounted);

}  // namespace paceline::snapshotter
