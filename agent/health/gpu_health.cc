#include "agent/health/gpu_health.h"

#include <fmt/format.h>

namespace paceline::agent {
namespace {

using analysis::DeviceFault;
using Count = unsigned long long;
using ReadCount = NvmlReturn(NvmlDevice device, Count* value);
using ReadEcc = NvmlReturn(NvmlDevice device, int error_type, int counter_type, Count* value);
using ReadLink = NvmlReturn(NvmlDevice device, unsigned link, int counter, Count* value);

constexpr Duration kTryAgain = std::chrono::minutes(10);
constexpr char kInTenMinutes[] = "in the last ten minutes";
constexpr int kUncorrected = 1;  // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
constexpr int kVolatile = 0;     // NVML_VOLATILE_ECC: since the driver was loaded
constexpr unsigned kMostLinks = 18;
constexpr int kLinkCounters = 4;  // replays, recoveries, errors of CRC in flits and in data

struct Reason {
  Count bit;
  const char* fault;
};
// nvmlClocksThrottleReason*. The power cap set for the card (4) is left out: at full load it is always on.
constexpr Reason kReasons[] = {{0x8, "clocks halved by the hardware"},
                               {0x20, "clocks held down by the driver for heat"},
                               {0x40, "clocks held down by the hardware for heat"},
                               {0x80, "clocks held down by the power supply"}};

}  // namespace

std::vector<DeviceFault> GpuHealth::Look(TimePoint now) {
  std::vector<DeviceFault> faults;
  if (!nvml_ && (!tried_ || *tried_ + kTryAgain <= now)) {
    tried_ = now;
    if (Result<NvmlLibrary> opened = NvmlLibrary::Open(library_name_); opened.ok()) nvml_.emplace(*std::move(opened));
  }
  unsigned count = 0;
  if (!nvml_ || nvml_->CountDevices(&count) != 0) return faults;
  for (unsigned index = 0; index < count; ++index) {
    NvmlDevice device = nullptr;
    if (const NvmlReturn result = nvml_->DeviceAt(index, &device); result == 0) {
      LookAt(index, device, now, &faults);
    } else {
      faults.push_back({"", fmt::format("GPU {}", index), nvml_->ErrorText(result), 1, ""});
    }
  }
  return faults;
}

void GpuHealth::LookAt(unsigned index, NvmlDevice device, TimePoint now, std::vector<DeviceFault>* faults) {
  const std::string name = fmt::format("GPU {}", index);
  Count value = 0;
  const auto read_reasons = nvml_->Find<ReadCount>("nvmlDeviceGetCurrentClocksThrottleReasons");
  if (read_reasons != nullptr && read_reasons(device, &value) == 0) {
    for (const Reason& reason : kReasons) {
      if ((value & reason.bit) != 0) faults->push_back({"", name, reason.fault, 1, ""});
    }
  }
  const auto read_ecc = nvml_->Find<ReadEcc>("nvmlDeviceGetTotalEccErrors");
  if (read_ecc != nullptr && read_ecc(device, kUncorrected, kVolatile, &value) == 0 && value > 0) {
    faults->push_back(
        {"", name, "uncorrected memory errors", static_cast<double>(value), "since the driver was loaded"});
  }
  const auto read_link = nvml_->Find<ReadLink>("nvmlDeviceGetNvLinkErrorCounter");
  Count errors = 0;
  bool has_links = false;
  for (unsigned link = 0; read_link != nullptr && link < kMostLinks; ++link) {
    for (int counter = 0; counter < kLinkCounters; ++counter) {
      if (read_link(device, link, counter, &value) != 0) continue;
      has_links = true;
      errors += value;
    }
  }
  const uint64_t grown = has_links ? link_errors_.Of(name, errors, now) : 0;
  if (grown > 0) faults->push_back({"", name, "NVLink errors", static_cast<double>(grown), kInTenMinutes});
}

}  // namespace paceline::agent
