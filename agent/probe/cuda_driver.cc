#include "agent/probe/cuda_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <type_traits>

namespace paceline::agent {
namespace {

// The driver's C interface. Symbols with _v2 are those that its headers have meant since CUDA 4.
using CuResult = int;  // 0 is success
using CuDevice = int;
using CuContext = struct CuContextOpaque*;
using CuModule = struct CuModuleOpaque*;
using CuFunction = struct CuFunctionOpaque*;
using CuAddress = unsigned long long;
constexpr int kMultiprocessorCount = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
constexpr CuResult kNoDevice = 100;       // CUDA_ERROR_NO_DEVICE

struct Cuda {
  CuResult (*init)(unsigned flags) = nullptr;
  CuResult (*error_string)(CuResult result, const char** text) = nullptr;
  CuResult (*device_count)(int* count) = nullptr;
  CuResult (*device)(CuDevice* device, int index) = nullptr;
  CuResult (*attribute)(int* value, int attribute, CuDevice device) = nullptr;
  CuResult (*retain)(CuContext* context, CuDevice device) = nullptr;
  CuResult (*release)(CuDevice device) = nullptr;
  CuResult (*set_current)(CuContext context) = nullptr;
  CuResult (*synchronize)() = nullptr;
  CuResult (*load_module)(CuModule* module, const void* image) = nullptr;
  CuResult (*unload_module)(CuModule module) = nullptr;
  CuResult (*function)(CuFunction* function, CuModule module, const char* name) = nullptr;
  CuResult (*launch)(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                     unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** arguments,
                     void** extra) = nullptr;
  CuResult (*allocate)(CuAddress* address, size_t bytes) = nullptr;
  CuResult (*free)(CuAddress address) = nullptr;
  CuResult (*allocate_host)(void** address, size_t bytes) = nullptr;
  CuResult (*free_host)(void* address) = nullptr;
  CuResult (*copy_on_device)(CuAddress to, CuAddress from, size_t bytes) = nullptr;
  CuResult (*copy_from_host)(CuAddress to, const void* from, size_t bytes) = nullptr;
  CuResult (*copy_peer)(CuAddress to, CuContext to_context, CuAddress from, CuContext from_context,
                        size_t bytes) = nullptr;
};

// Returns the name of the first symbol that is missing, or null when all are there.
const char* LoadSymbols(void* library, Cuda* cuda) {
  const char* missing = nullptr;
  const auto load = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
    if (*function == nullptr && missing == nullptr) missing = name;
  };
  load("cuInit", &cuda->init);
  load("cuGetErrorString", &cuda->error_string);
  load("cuDeviceGetCount", &cuda->device_count);
  load("cuDeviceGet", &cuda->device);
  load("cuDeviceGetAttribute", &cuda->attribute);
  load("cuDevicePrimaryCtxRetain", &cuda->retain);
  load("cuDevicePrimaryCtxRelease_v2", &cuda->release);
  load("cuCtxSetCurrent", &cuda->set_current);
  load("cuCtxSynchronize", &cuda->synchronize);
  load("cuModuleLoadData", &cuda->load_module);
  load("cuModuleUnload", &cuda->unload_module);
  load("cuModuleGetFunction", &cuda->function);
  load("cuLaunchKernel", &cuda->launch);
  load("cuMemAlloc_v2", &cuda->allocate);
  load("cuMemFree_v2", &cuda->free);
  load("cuMemAllocHost_v2", &cuda->allocate_host);
  load("cuMemFreeHost", &cuda->free_host);
  load("cuMemcpyDtoD_v2", &cuda->copy_on_device);
  load("cuMemcpyHtoD_v2", &cuda->copy_from_host);
  load("cuMemcpyPeer", &cuda->copy_peer);
  return missing;
}

// Eight chains of multiply-adds in each thread, kept in registers: what the units of the GPU do at the clock that they
// get. The chains begin at the thread's number, or the compiler would do them once for all threads of a warp.
constexpr char kKernel[] = R"(
.version 6.0
.target sm_50
.address_size 64

.visible .entry paceline_multiply(.param .u64 out, .param .u32 rounds)
{
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .f32 %f<12>;
  .reg .b64 %rd<4>;

  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [rounds];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mad.lo.u32 %r5, %r3, %r4, %r2;
  cvt.rn.f32.u32 %f1, %r2;
  add.f32 %f2, %f1, 0f3F000000;
  add.f32 %f3, %f1, 0f3F800000;
  add.f32 %f4, %f1, 0f40000000;
  add.f32 %f5, %f1, 0f40400000;
  add.f32 %f6, %f1, 0f40800000;
  add.f32 %f7, %f1, 0f40A00000;
  add.f32 %f8, %f1, 0f40C00000;
  add.f32 %f9, %f1, 0f40E00000;
  mov.f32 %f10, 0f3F7FFFEF;
  mov.f32 %f11, 0f3A83126F;
LOOP:
  fma.rn.f32 %f2, %f2, %f10, %f11;
  fma.rn.f32 %f3, %f3, %f10, %f11;
  fma.rn.f32 %f4, %f4, %f10, %f11;
  fma.rn.f32 %f5, %f5, %f10, %f11;
  fma.rn.f32 %f6, %f6, %f10, %f11;
  fma.rn.f32 %f7, %f7, %f10, %f11;
  fma.rn.f32 %f8, %f8, %f10, %f11;
  fma.rn.f32 %f9, %f9, %f10, %f11;
  add.u32 %r1, %r1, -1;
  setp.ne.u32 %p, %r1, 0;
  @%p bra LOOP;
  add.f32 %f2, %f2, %f3;
  add.f32 %f4, %f4, %f5;
  add.f32 %f6, %f6, %f7;
  add.f32 %f8, %f8, %f9;
  add.f32 %f2, %f2, %f4;
  add.f32 %f6, %f6, %f8;
  add.f32 %f2, %f2, %f6;
  mul.wide.u32 %rd2, %r5, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.f32 [%rd3], %f2;
  ret;
}
)";
constexpr unsigned kBlockThreads = 256;
constexpr unsigned kBlocksPerMultiprocessor = 8;
constexpr unsigned kRounds = 4096;
constexpr double kFlopPerRound = 16;  // of one thread: eight multiply-adds
constexpr size_t kBufferBytes = 256u << 20;
constexpr size_t kHostBytes = 64u << 20;

class Driver final : public CudaDriver {
 public:
  explicit Driver(void* library) : library_(library) {}
  ~Driver() override { dlclose(library_); }

  Status Start(const std::string& name) {
    if (const char* missing = LoadSymbols(library_, &cuda_)) {
      return UnavailableError(fmt::format("{} lacks {}", name, missing));
    }
    const CuResult started = cuda_.init(0);
    if (started == kNoDevice) return NotFoundError(name + ": driver without devices");
    RETURN_IF_ERROR(Check(started, "start"));
    RETURN_IF_ERROR(Check(cuda_.device_count(&count_), "count devices"));
    return count_ > 0 ? Status() : NotFoundError(name + ": driver without devices");
  }
  Status Check(CuResult result, const char* what) const {
    if (result == 0) return Status();
    const char* text = nullptr;
    if (cuda_.error_string(result, &text) != 0 || text == nullptr) text = "unknown error";
    return UnavailableError(fmt::format("{}: {} ({})", what, text, result));
  }

  int device_count() const override { return count_; }
  const Cuda& cuda() const { return cuda_; }

 private:
  void* const library_;
  Cuda cuda_;
  int count_ = 0;
};

class Device final : public CudaDevice {
 public:
  explicit Device(const Driver& driver) : driver_(driver), cuda_(driver.cuda()) {}
  ~Device() override {
    if (context_ == nullptr) return;
    cuda_.set_current(context_);
    if (host_ != nullptr) cuda_.free_host(host_);
    for (const CuAddress buffer : {buffer_, other_buffer_}) {
      if (buffer != 0) cuda_.free(buffer);
    }
    if (module_ != nullptr) cuda_.unload_module(module_);
    cuda_.release(device_);
  }

  Status Start(int index) {
    RETURN_IF_ERROR(driver_.Check(cuda_.device(&device_, index), "open"));
    int multiprocessors = 0;
    RETURN_IF_ERROR(driver_.Check(cuda_.attribute(&multiprocessors, kMultiprocessorCount, device_), "ask"));
    blocks_ = static_cast<unsigned>(multiprocessors) * kBlocksPerMultiprocessor;
    RETURN_IF_ERROR(driver_.Check(cuda_.retain(&context_, device_), "make a context"));
    RETURN_IF_ERROR(driver_.Check(cuda_.set_current(context_), "use its context"));
    RETURN_IF_ERROR(driver_.Check(cuda_.load_module(&module_, kKernel), "compile the kernel"));
    RETURN_IF_ERROR(driver_.Check(cuda_.function(&kernel_, module_, "paceline_multiply"), "find the kernel"));
    RETURN_IF_ERROR(driver_.Check(cuda_.allocate(&buffer_, kBufferBytes), "allocate"));
    RETURN_IF_ERROR(driver_.Check(cuda_.allocate(&other_buffer_, kBufferBytes), "allocate"));
    return driver_.Check(cuda_.allocate_host(&host_, kHostBytes), "pin memory");
  }

  Status Multiply(int times) override {
    return Repeat(times, "multiply", [this] {
      unsigned rounds = kRounds;
      void* arguments[] = {&buffer_, &rounds};
      return cuda_.launch(kernel_, blocks_, 1, 1, kBlockThreads, 1, 1, 0, nullptr, arguments, nullptr);
    });
  }
  Status CopyOnDevice(int times) override {
    return Repeat(times, "copy", [this] { return cuda_.copy_on_device(other_buffer_, buffer_, kBufferBytes); });
  }
  Status CopyFromHost(int times) override {
    return Repeat(times, "copy from the host", [this] { return cuda_.copy_from_host(buffer_, host_, kHostBytes); });
  }
  Status CopyTo(CudaDevice& other, int times) override {
    const auto& to = static_cast<Device&>(other);
    return Repeat(times, "copy to another GPU",
                  [&] { return cuda_.copy_peer(to.buffer_, to.context_, buffer_, context_, kBufferBytes); });
  }
  double flop_per_multiply() const override { return kFlopPerRound * kRounds * kBlockThreads * blocks_; }
  size_t buffer_bytes() const override { return kBufferBytes; }
  size_t host_bytes() const override { return kHostBytes; }

 private:
  template <typename Work>
  Status Repeat(int times, const char* what, Work work) {
    RETURN_IF_ERROR(driver_.Check(cuda_.set_current(context_), what));
    for (int i = 0; i < times; ++i) RETURN_IF_ERROR(driver_.Check(work(), what));
    return driver_.Check(cuda_.synchronize(), what);
  }

  const Driver& driver_;
  const Cuda& cuda_;
  CuDevice device_ = 0;
  CuContext context_ = nullptr;
  CuModule module_ = nullptr;
  CuFunction kernel_ = nullptr;
  CuAddress buffer_ = 0, other_buffer_ = 0;
  void* host_ = nullptr;
  unsigned blocks_ = 0;
};

}  // namespace

Result<std::unique_ptr<CudaDriver>> CudaDriver::Open(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return NotFoundError(library + " is not there");
  auto driver = std::make_unique<Driver>(handle);
  RETURN_IF_ERROR(driver->Start(library));
  return std::unique_ptr<CudaDriver>(std::move(driver));
}

Result<std::unique_ptr<CudaDevice>> CudaDevice::Open(const CudaDriver& driver, int index) {
  auto device = std::make_unique<Device>(static_cast<const Driver&>(driver));
  RETURN_IF_ERROR(device->Start(index).Annotate(fmt::format("GPU {}", index)));
  return std::unique_ptr<CudaDevice>(std::move(device));
}

}  // namespace paceline::agent
