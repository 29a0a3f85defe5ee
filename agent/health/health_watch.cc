#include "agent/health/health_watch.h"

#include <iterator>

#include "agent/health/gpu_health.h"
#include "agent/health/kernel_log.h"
#include "agent/health/network_health.h"
#include "lib/base/filesystem.h"

namespace paceline::agent {
namespace {

constexpr size_t kMostFaults = 256;

}  // namespace

struct HealthWatch::Sources {
  explicit Sources(const HealthOptions& options)
      : files(options.host_root),
        network(files),
        gpus(options.nvml_library),
        kernel_log(options.host_root + "/dev/kmsg") {}

  RealFileSystem files;
  NetworkHealth network;
  GpuHealth gpus;
  KernelLog kernel_log;
};

HealthWatch::HealthWatch(HealthOptions options, const Clock& clock, MetricsRegistry& metrics)
    : options_(std::move(options)),
      clock_(clock),
      count_(metrics
                 .GaugeFamily({.name = "paceline_node_device_faults",
                               .help = "What is wrong with GPUs and network cards of the node, or was lately."})
                 .With({})),
      sources_(std::make_unique<Sources>(options_)) {}

HealthWatch::~HealthWatch() = default;

void HealthWatch::Run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    Look();
    clock_.SleepFor(options_.period, stop);
  }
}

void HealthWatch::Look() {
  const TimePoint now = clock_.Now();
  std::vector<analysis::DeviceFault> faults = sources_->gpus.Look(now);
  for (auto more : {sources_->kernel_log.Look(now), sources_->network.Look(now)}) {
    std::move(more.begin(), more.end(), std::back_inserter(faults));
  }
  if (faults.size() > kMostFaults) faults.resize(kMostFaults);
  for (analysis::DeviceFault& fault : faults) fault.node = options_.node;
  count_.Set(static_cast<double>(faults.size()));
  MutexLock lock(mutex_);
  faults_ = std::move(faults);
}

std::vector<analysis::DeviceFault> HealthWatch::Faults() const {
  MutexLock lock(mutex_);
  return faults_;
}

}  // namespace paceline::agent
