#include "agent/facts/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>
#include <type_traits>

namespace paceline::agent {
namespace {

// NVML's C interface as far as it is used. The `_v2` symbols have been in every driver since 2014.
using NvmlReturn = int;  // 0 is success
using NvmlDevice = struct NvmlDeviceOpaque*;
struct NvmlMemory {
  unsigned long long total_bytes;
  unsigned long long free_bytes;
  unsigned long long used_bytes;
};

struct LibraryCloser {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, LibraryCloser>;

struct Nvml {
  NvmlReturn (*init)() = nullptr;
  NvmlReturn (*shutdown)() = nullptr;
  const char* (*error_string)(NvmlReturn) = nullptr;
  NvmlReturn (*driver_version)(char* text, unsigned length) = nullptr;
  NvmlReturn (*cuda_version)(int* version) = nullptr;
  NvmlReturn (*device_count)(unsigned* count) = nullptr;
  NvmlReturn (*device_by_index)(unsigned index, NvmlDevice* device) = nullptr;
  NvmlReturn (*device_name)(NvmlDevice device, char* text, unsigned length) = nullptr;
  NvmlReturn (*device_uuid)(NvmlDevice device, char* text, unsigned length) = nullptr;
  NvmlReturn (*device_memory)(NvmlDevice device, NvmlMemory* memory) = nullptr;
};

// Returns the name of the first symbol that is missing, or null when all are there.
const char* LoadSymbols(void* library, Nvml* nvml) {
  const char* missing = nullptr;
  const auto load = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
    if (*function == nullptr && missing == nullptr) missing = name;
  };
  load("nvmlInit_v2", &nvml->init);
  load("nvmlShutdown", &nvml->shutdown);
  load("nvmlErrorString", &nvml->error_string);
  load("nvmlSystemGetDriverVersion", &nvml->driver_version);
  load("nvmlSystemGetCudaDriverVersion_v2", &nvml->cuda_version);
  load("nvmlDeviceGetCount_v2", &nvml->device_count);
  load("nvmlDeviceGetHandleByIndex_v2", &nvml->device_by_index);
  load("nvmlDeviceGetName", &nvml->device_name);
  load("nvmlDeviceGetUUID", &nvml->device_uuid);
  load("nvmlDeviceGetMemoryInfo", &nvml->device_memory);
  return missing;
}

constexpr unsigned kTextLength = 96;  // the largest that NVML documents for names, UUIDs and versions

void ReadDevices(const Nvml& nvml, GpuFacts* facts) {
  unsigned count = 0;
  NvmlReturn result = nvml.device_count(&count);
  if (result != 0) {
    facts->detail = fmt::format("counting devices: {}", nvml.error_string(result));
    return;
  }
  if (count == 0) facts->detail = "driver without devices";
  for (unsigned index = 0; index < count; ++index) {
    NvmlDevice device = nullptr;
    result = nvml.device_by_index(index, &device);
    if (result != 0) {  // a GPU that fell off the bus still counts; the others are still worth knowing
      facts->detail = fmt::format("device {}: {}", index, nvml.error_string(result));
      continue;
    }
    GpuDevice gpu;
    char text[kTextLength] = {};
    gpu.model = nvml.device_name(device, text, kTextLength) == 0 ? text : "unknown";
    if (nvml.device_uuid(device, text, kTextLength) == 0) gpu.uuid = text;
    NvmlMemory memory{};
    if (nvml.device_memory(device, &memory) == 0) gpu.memory_bytes = memory.total_bytes;
    facts->devices.push_back(std::move(gpu));
  }
}

}  // namespace

GpuFacts QueryGpus(const std::string& library_name) {
  GpuFacts facts;
  Library library(dlopen(library_name.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) {
    facts.detail = fmt::format("{} is not there", library_name);
    return facts;
  }
  Nvml nvml;
  if (const char* missing = LoadSymbols(library.get(), &nvml)) {
    facts.detail = fmt::format("{} lacks {}", library_name, missing);
    return facts;
  }
  if (NvmlReturn result = nvml.init(); result != 0) {
    facts.detail = fmt::format("NVML does not start: {}", nvml.error_string(result));
    return facts;
  }
  char text[kTextLength] = {};
  if (nvml.driver_version(text, kTextLength) == 0) facts.driver_version = text;
  int cuda = 0;  // 1000 * major + 10 * minor
  if (nvml.cuda_version(&cuda) == 0) facts.cuda_version = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
  ReadDevices(nvml, &facts);
  nvml.shutdown();
  return facts;
}

}  // namespace paceline::agent
