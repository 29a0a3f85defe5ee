#include "agent/probe/gpu_probe.h"

#include <fmt/format.h>

#include <map>
#include <memory>

#include "agent/probe/cuda_driver.h"

namespace paceline::agent {
namespace {

constexpr int kBatch = 8;  // started before they are waited for

// Figures of the slowest GPU of each kind.
class Slowest {
 public:
  void See(const char* name, double value, std::string where) {
    const auto found = worst_.find(name);
    if (found == worst_.end() || value < found->second.first) worst_[name] = {value, std::move(where)};
  }
  Measurement Figures(int count, const Clock& clock) const {
    Measurement out;
    for (const auto& [name, worst] : worst_) {
      const std::string detail = count == 1 ? worst.second : fmt::format("{}, slowest of {}", worst.second, count);
      out.figures.push_back(FigureOf(name, worst.first, clock, detail));
    }
    return out;
  }

 private:
  std::map<std::string, std::pair<double, std::string>> worst_;  // by name of the figure
};

// Per second; `amount` is done by one call of `work`.
template <typename Work>
Result<double> Rate(const GpuProbeOptions& options, const Clock& clock, double amount, Work work) {
  Status failure = work(1);  // the first is slower
  if (!failure.ok()) return failure;
  const double rate = RatePerSecond(clock, options.length, [&] {
    if (failure.ok()) failure = work(kBatch);
    return amount * kBatch;
  });
  if (!failure.ok()) return failure;
  return rate;
}

Status MeasureOne(CudaDevice& device, int index, const GpuProbeOptions& options, const Clock& clock, Slowest& slowest) {
  const std::string where = fmt::format("GPU {}", index);
  ASSIGN_OR_RETURN(const double flops,
                   Rate(options, clock, device.flop_per_multiply(), [&](int times) { return device.Multiply(times); }));
  slowest.See("gpuMultiply", flops / 1e9, where);
  // What is copied is read and written.
  ASSIGN_OR_RETURN(const double copied, Rate(options, clock, 2.0 * static_cast<double>(device.buffer_bytes()),
                                             [&](int times) { return device.CopyOnDevice(times); }));
  slowest.See("gpuMemoryCopy", copied / 1e6, where);
  ASSIGN_OR_RETURN(const double sent, Rate(options, clock, static_cast<double>(device.host_bytes()),
                                           [&](int times) { return device.CopyFromHost(times); }));
  slowest.See("gpuHostCopy", sent / 1e6, where);
  return Status();
}

Result<Measurement> Measure(const GpuProbeOptions& options, const Clock& clock) {
  ASSIGN_OR_RETURN(const std::unique_ptr<CudaDriver> driver, CudaDriver::Open(options.library));
  const int count = driver->device_count();
  Slowest slowest;
  std::unique_ptr<CudaDevice> first, before;
  for (int index = 0; index < count; ++index) {
    ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::Open(*driver, index));
    RETURN_IF_ERROR(MeasureOne(*device, index, options, clock, slowest).Annotate(fmt::format("GPU {}", index)));
    // Around the ring, so that each has sent and received.
    const auto copy = [&](CudaDevice& from, CudaDevice& to, int sender) -> Status {
      ASSIGN_OR_RETURN(const double rate, Rate(options, clock, static_cast<double>(from.buffer_bytes()),
                                               [&](int times) { return from.CopyTo(to, times); }));
      slowest.See("gpuPeerCopy", rate / 1e6, fmt::format("from GPU {}", sender));
      return Status();
    };
    CudaDevice* const last = before != nullptr ? before.get() : first.get();
    if (last != nullptr) RETURN_IF_ERROR(copy(*last, *device, index - 1));
    if (index == count - 1 && count > 1) RETURN_IF_ERROR(copy(*device, *first, index));
    (first == nullptr ? first : before) = std::move(device);
  }
  return slowest.Figures(count, clock);
}

}  // namespace

Measurement MeasureGpus(const GpuProbeOptions& options, const Clock& clock) {
  Result<Measurement> measured = Measure(options, clock);
  if (measured.ok()) return *std::move(measured);
  const bool is_none = measured.status().code() == StatusCode::kNotFound;
  return Missing(api::ProbeCheck::kGpu, is_none ? api::ProbeGap::kNotThere : api::ProbeGap::kFailed,
                 measured.status().message());
}

}  // namespace paceline::agent
