// The volume half of the agent put together: the host's mounts, the volume types, the records, the CSI sockets, the
// stage files, and the thread that looks after them. Made by RunAgent when kubelet is to be served. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "agent/config.h"
#include "agent/csi/csi_server.h"
#include "agent/csi/pod_reports.h"
#include "agent/csi/volume_publisher.h"
#include "agent/plan/node_status.h"
#include "agent/trace/collector.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/metrics.h"

namespace paceline::agent {

class VolumeService {
 public:
  // Mends what an earlier agent left, then serves. `on_news` is called from the service's thread when the reports of
  // pods or the driver's state changed. Blocks while volumes are mended. Everything passed by reference must outlive
  // it.
  static Result<std::unique_ptr<VolumeService>> Start(const AgentConfig& config, std::function<void()> on_news,
                                                      const Clock& clock, Logger& log, MetricsRegistry& metrics);
  virtual ~VolumeService() = default;

  virtual DriverState driver() const = 0;
  virtual std::vector<VolumeRecord> Volumes() const = 0;
  virtual std::vector<VolumeRecord> EndedVolumes() const = 0;
  virtual std::vector<PodReport> Pods() const = 0;
  // Where the pods of traced jobs write their rings.
  virtual std::vector<TraceFolder> TraceFolders() const = 0;

  // Lets running calls end for at most `grace`, then closes the sockets and ends the thread. Blocks.
  virtual void Shutdown(Duration grace) = 0;
};

}  // namespace paceline::agent
