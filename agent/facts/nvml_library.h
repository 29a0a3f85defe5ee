// NVML, the management library of NVIDIA's driver, opened at run time: nodes without a GPU do not have it, and the
// program must not depend on it. Used by QueryGpus and by GpuHealth. Calls may block in the driver; NVML itself is safe
// from any thread.
#pragma once

#include <memory>
#include <string>

#include "lib/base/result.h"

namespace paceline::agent {

// NVML's C interface as far as it is used. The `_v2` symbols have been in every driver since 2014.
using NvmlReturn = int;  // 0 is success
using NvmlDevice = struct NvmlDeviceOpaque*;

// The library, initialised; shut down with the object.
class NvmlLibrary {
 public:
  // `name` is handed to dlopen. kUnavailable, with a sentence for people, without the library, without one of the
  // symbols that are always needed, or when it does not start.
  static Result<NvmlLibrary> Open(const std::string& name);
  NvmlLibrary(NvmlLibrary&& other) noexcept = default;
  NvmlLibrary& operator=(NvmlLibrary&&) = delete;
  ~NvmlLibrary();

  // Null when this driver does not have it.
  template <typename Function>
  Function* Find(const char* symbol) const {
    return reinterpret_cast<Function*>(FindSymbol(symbol));
  }

  const char* ErrorText(NvmlReturn code) const { return error_string_(code); }
  NvmlReturn CountDevices(unsigned* count) const { return device_count_(count); }
  NvmlReturn DeviceAt(unsigned index, NvmlDevice* device) const { return device_by_index_(index, device); }

 private:
  struct Closer {
    void operator()(void* library) const;
  };

  explicit NvmlLibrary(void* library) : library_(library) {}
  void* FindSymbol(const char* symbol) const;

  std::unique_ptr<void, Closer> library_;
  NvmlReturn (*shutdown_)() = nullptr;  // null until it has been started
  const char* (*error_string_)(NvmlReturn) = nullptr;
  NvmlReturn (*device_count_)(unsigned*) = nullptr;
  NvmlReturn (*device_by_index_)(unsigned, NvmlDevice*) = nullptr;
};

}  // namespace paceline::agent
