// What NVML says is wrong with the node's GPUs: clocks held down by heat or power, memory errors that could not be
// corrected, errors of NVLink, a GPU that is lost. Drivers differ in what they can tell; what one cannot is left out.
//
// Called by HealthWatch. Used by one thread at a time.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/facts/nvml_library.h"
#include "agent/health/growth.h"
#include "analysis/trace_model.h"
#include "lib/base/clock.h"

namespace paceline::agent {

class GpuHealth {
 public:
  // `library` is handed to dlopen at the first look, and again every ten minutes while it is not there.
  explicit GpuHealth(std::string library) : library_name_(std::move(library)) {}

  // What is wrong now, and which error counters have grown within ten minutes. `node` stays empty. May block in the
  // driver.
  std::vector<analysis::DeviceFault> Look(TimePoint now);

 private:
  void LookAt(unsigned index, NvmlDevice device, TimePoint now, std::vector<analysis::DeviceFault>* faults);

  const std::string library_name_;
  std::optional<NvmlLibrary> nvml_;
  std::optional<TimePoint> tried_;
  Growth link_errors_{std::chrono::minutes(10)};  // by device
};

}  // namespace paceline::agent
