#include "agent/facts/nvml_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <type_traits>

namespace paceline::agent {

void NvmlLibrary::Closer::operator()(void* library) const { dlclose(library); }

void* NvmlLibrary::FindSymbol(const char* symbol) const { return dlsym(library_.get(), symbol); }

NvmlLibrary::~NvmlLibrary() {
  if (library_ != nullptr && shutdown_ != nullptr) shutdown_();
}

Result<NvmlLibrary> NvmlLibrary::Open(const std::string& name) {
  NvmlLibrary nvml(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (nvml.library_ == nullptr) return UnavailableError(fmt::format("{} is not there", name));
  const char* missing = nullptr;
  const auto load = [&](const char* symbol, auto* function) {
    *function = nvml.Find<std::remove_pointer_t<std::remove_pointer_t<decltype(function)>>>(symbol);
    if (*function == nullptr && missing == nullptr) missing = symbol;
  };
  NvmlReturn (*init)() = nullptr;
  NvmlReturn (*shutdown)() = nullptr;
  load("nvmlInit_v2", &init);
  load("nvmlShutdown", &shutdown);
  load("nvmlErrorString", &nvml.error_string_);
  load("nvmlDeviceGetCount_v2", &nvml.device_count_);
  load("nvmlDeviceGetHandleByIndex_v2", &nvml.device_by_index_);
  if (missing != nullptr) return UnavailableError(fmt::format("{} lacks {}", name, missing));
  if (const NvmlReturn result = init(); result != 0) {
    return UnavailableError(fmt::format("NVML does not start: {}", nvml.ErrorText(result)));
  }
  nvml.shutdown_ = shutdown;
  return nvml;
}

}  // namespace paceline::agent
