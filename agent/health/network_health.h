// Errors of the node's network cards, from the kernel's counters in /sys: Ethernet (class/net) and InfiniBand or RoCE
// (class/infiniband). Only devices that the kernel has a driver's device for: no bridges, tunnels or pods' ends.
//
// Called by HealthWatch. Used by one thread at a time.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "agent/health/growth.h"
#include "analysis/trace_model.h"
#include "lib/base/clock.h"
#include "lib/base/filesystem.h"

namespace paceline::agent {

class NetworkHealth {
 public:
  // `files`, whose /sys is the host's, is borrowed.
  explicit NetworkHealth(const FileSystem& files) : files_(files) {}

  // What is wrong now, and which error counters have grown within a minute. A counter that is seen for the first time
  // says nothing yet; what cannot be read is as if it were not there. `node` stays empty. Reads some tens of small
  // files.
  std::vector<analysis::DeviceFault> Look(TimePoint now);

 private:
  void LookAtInterface(const std::string& name, TimePoint now, std::vector<analysis::DeviceFault>* faults);
  void LookAtPort(const std::string& path, const std::string& device, TimePoint now,
                  std::vector<analysis::DeviceFault>* faults);
  // Adds a fault when the counter in the file `path` has grown.
  void Follow(const std::string& path, const std::string& device, const char* fault, TimePoint now,
              std::vector<analysis::DeviceFault>* faults);

  const FileSystem& files_;
  Growth growth_{std::chrono::minutes(1)};
  std::set<std::string> worked_;  // ports that have been active: others may be without a cable
};

}  // namespace paceline::agent
