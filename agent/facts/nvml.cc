#include "agent/facts/nvml.h"

#include <fmt/format.h>

#include "agent/facts/nvml_library.h"

namespace paceline::agent {
namespace {

struct NvmlMemory {
  unsigned long long total_bytes;
  unsigned long long free_bytes;
  unsigned long long used_bytes;
};

using ReadText = NvmlReturn(char* text, unsigned length);
using ReadDeviceText = NvmlReturn(NvmlDevice device, char* text, unsigned length);
using ReadMemory = NvmlReturn(NvmlDevice device, NvmlMemory* memory);
using ReadInt = NvmlReturn(int* value);

constexpr unsigned kTextLength = 96;  // the largest that NVML documents for names, UUIDs and versions

void ReadDevices(const NvmlLibrary& nvml, GpuFacts* facts) {
  const auto read_name = nvml.Find<ReadDeviceText>("nvmlDeviceGetName");
  const auto read_uuid = nvml.Find<ReadDeviceText>("nvmlDeviceGetUUID");
  const auto read_memory = nvml.Find<ReadMemory>("nvmlDeviceGetMemoryInfo");
  unsigned count = 0;
  NvmlReturn result = nvml.CountDevices(&count);
  if (result != 0) {
    facts->detail = fmt::format("counting devices: {}", nvml.ErrorText(result));
    return;
  }
  if (count == 0) facts->detail = "driver without devices";
  for (unsigned index = 0; index < count; ++index) {
    NvmlDevice device = nullptr;
    result = nvml.DeviceAt(index, &device);
    if (result != 0) {  // a GPU that fell off the bus still counts; the others are still worth knowing
      facts->detail = fmt::format("device {}: {}", index, nvml.ErrorText(result));
      continue;
    }
    GpuDevice gpu;
    char text[kTextLength] = {};
    gpu.model = read_name != nullptr && read_name(device, text, kTextLength) == 0 ? text : "unknown";
    if (read_uuid != nullptr && read_uuid(device, text, kTextLength) == 0) gpu.uuid = text;
    NvmlMemory memory{};
    if (read_memory != nullptr && read_memory(device, &memory) == 0) gpu.memory_bytes = memory.total_bytes;
    facts->devices.push_back(std::move(gpu));
  }
}

}  // namespace

GpuFacts QueryGpus(const std::string& library_name) {
  GpuFacts facts;
  const Result<NvmlLibrary> nvml = NvmlLibrary::Open(library_name);
  if (!nvml.ok()) {
    facts.detail = nvml.status().message();
    return facts;
  }
  char text[kTextLength] = {};
  const auto read_driver = nvml->Find<ReadText>("nvmlSystemGetDriverVersion");
  if (read_driver != nullptr && read_driver(text, kTextLength) == 0) facts.driver_version = text;
  int cuda = 0;  // 1000 * major + 10 * minor
  const auto read_cuda = nvml->Find<ReadInt>("nvmlSystemGetCudaDriverVersion_v2");
  if (read_cuda != nullptr && read_cuda(&cuda) == 0) {
    facts.cuda_version = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
  }
  ReadDevices(*nvml, &facts);
  return facts;
}

}  // namespace paceline::agent
