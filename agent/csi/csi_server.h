// The CSI driver as kubelet sees it: the Identity and Node services on one unix socket, and the registration service on
// another one in kubelet's plugins_registry. Only translates between gRPC and VolumePublisher, logs each call once and
// counts it. gRPC runs the handlers on its own threads, which block while a volume is made.
#pragma once

#include <memory>
#include <string>

#include "agent/csi/volume_publisher.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/metrics.h"
#include "lib/base/result.h"

namespace paceline::agent {

struct CsiServerOptions {
  std::string node_name;            // given to kubelet as the CSI node id
  std::string version;              // ours
  std::string csi_socket;           // KUBELET/plugins/csi.paceline.dev/csi.sock; its folder is made
  std::string registration_socket;  // KUBELET/plugins_registry/csi.paceline.dev-reg.sock; empty: do not register
  int max_threads = 32;             // calls at the same time; kubelet has one per volume
};

class CsiServer {
 public:
  // Serves CSI first and registers second, since kubelet calls back at once. A socket left by a dead agent is replaced.
  // kInvalidArgument for a socket path too long for the kernel, kUnavailable when it cannot be bound. Everything passed
  // by reference must outlive the server.
  static Result<std::unique_ptr<CsiServer>> Start(const CsiServerOptions& options, VolumePublisher& publisher,
                                                  const Clock& clock, Logger& log, MetricsRegistry& metrics);
  virtual ~CsiServer() = default;  // as Shutdown with no grace

  // True once kubelet said that it took the driver. Does not block.
  virtual bool is_registered() const = 0;

  // Takes the registration away, lets running calls end for at most `grace`, closes the sockets. Blocks; safe to
  // repeat.
  virtual void Shutdown(Duration grace) = 0;
};

}  // namespace paceline::agent
