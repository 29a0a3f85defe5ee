// Looks at the node's GPUs and network cards now and then and keeps what is wrong with them, as evidence for whoever
// looks into a training run that stands still or is slow.
//
// The agent's main owns one and runs it on a thread of its own, since a driver may keep a caller waiting; Faults may be
// called by any thread and never waits for a driver.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/trace_model.h"
#include "lib/base/clock.h"
#include "lib/base/metrics.h"
#include "lib/base/mutex.h"

namespace paceline::agent {

struct HealthOptions {
  std::string node;
  std::string host_root;     // where the host's /sys and /dev are; "" for our own
  std::string nvml_library;  // handed to dlopen
  Duration period = std::chrono::seconds(10);
};

class HealthWatch {
 public:
  // `clock` and `metrics` are borrowed.
  HealthWatch(HealthOptions options, const Clock& clock, MetricsRegistry& metrics);
  ~HealthWatch();
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;

  // Looks once each period, until `stop`.
  void Run(std::stop_token stop);
  // What Run does each time. Blocks in the drivers.
  void Look() EXCLUDES(mutex_);

  // Of the latest look, at most 256, with the node's name.
  std::vector<analysis::DeviceFault> Faults() const EXCLUDES(mutex_);

 private:
  struct Sources;

  const HealthOptions options_;
  const Clock& clock_;
  Gauge& count_;
  const std::unique_ptr<Sources> sources_;  // used by the thread in Run alone
  mutable Mutex mutex_;
  std::vector<analysis::DeviceFault> faults_ GUARDED_BY(mutex_);
};

}  // namespace paceline::agent
