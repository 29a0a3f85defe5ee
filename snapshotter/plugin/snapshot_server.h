// The gRPC service of the plugin on its unix socket: only translates between containerd's messages and Snapshots, logs
// failures and counts calls. gRPC runs the handlers on its own threads, which block while a snapshot is made.
#pragma once

#include <memory>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/result.h"
#include "snapshotter/plugin/plugin_metrics.h"
#include "snapshotter/plugin/snapshots.h"

namespace paceline::snapshotter {

class SnapshotServer {
 public:
  // Serves. A socket left by a dead server is replaced. kInvalidArgument for a path too long for the kernel,
  // kUnavailable when it cannot be bound. What is passed by reference must outlive the server.
  static Result<std::unique_ptr<SnapshotServer>> Start(const std::string& socket, Snapshots& snapshots,
                                                       const Clock& clock, Logger& log, PluginMetrics& metrics);
  virtual ~SnapshotServer() = default;  // as Shutdown with no grace

  // Takes no more calls, lets running ones end for at most `grace`. Blocks; safe to repeat.
  virtual void Shutdown(Duration grace) = 0;
};

}  // namespace paceline::snapshotter
