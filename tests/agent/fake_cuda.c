// A library with the CUDA driver's interface, as probes open it: PACELINE_CUDA_DEVICES GPUs that do everything at once,
// and count what is held. What it cannot show is how a real driver behaves, nor that the kernel compiles.
#include <stddef.h>
#include <string.h>

#ifndef PACELINE_CUDA_DEVICES
#define PACELINE_CUDA_DEVICES 2
#endif

static int held;          // contexts, modules and memory
static int current = -1;  // device of the current context
static int kernel;

int paceline_fake_cuda_held(void) { return held; }

int cuInit(unsigned flags) { return flags == 0 ? 0 : 1; }
int cuGetErrorString(int result, const char** text) {
  *text = result == 719 ? "unspecified launch failure" : "invalid argument";
  return 0;
}
int cuDeviceGetCount(int* count) { return *count = PACELINE_CUDA_DEVICES, 0; }
int cuDeviceGet(int* device, int index) { return *device = index, index < PACELINE_CUDA_DEVICES ? 0 : 101; }
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = 4;
  return attribute == 16 ? 0 : 1;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  static char contexts[16];
  *context = &contexts[device];
  contexts[device] = (char)device;
  ++held;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return --held, device < PACELINE_CUDA_DEVICES ? 0 : 1; }
int cuCtxSetCurrent(void* context) { return current = *(char*)context, 0; }
int cuCtxSynchronize(void) { return 0; }
int cuModuleLoadData(void** module, const void* image) {
  if (strstr((const char*)image, ".entry paceline_multiply") == NULL) return 1;
  *module = &kernel;
  ++held;
  return 0;
}
int cuModuleUnload(void* module) { return --held, module == &kernel ? 0 : 1; }
int cuModuleGetFunction(void** function, void* module, const char* name) {
  *function = module;
  return strcmp(name, "paceline_multiply") == 0 ? 0 : 1;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void* stream, void** arguments, void** extra) {
  (void)stream;
  // As many threads as the buffer has numbers, at most.
  if (function != &kernel || gx != 32 || gy * gz * by * bz != 1 || bx != 256 || shared != 0 || extra != NULL) return 1;
  if (*(unsigned long long*)arguments[0] == 0 || *(unsigned*)arguments[1] == 0) return 1;
#ifdef PACELINE_CUDA_BROKEN
  if (current == 1) return 719;
#endif
  return 0;
}
int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  *address = 0x1000 + (unsigned long long)++held;
  return bytes > 0 ? 0 : 1;
}
int cuMemFree_v2(unsigned long long address) { return --held, address != 0 ? 0 : 1; }
int cuMemAllocHost_v2(void** address, size_t bytes) {
  *address = &kernel;
  ++held;
  return bytes > 0 ? 0 : 1;
}
int cuMemFreeHost(void* address) { return --held, address == &kernel ? 0 : 1; }
int cuMemcpyDtoD_v2(unsigned long long to, unsigned long long from, size_t bytes) {
  return to != 0 && from != 0 && to != from && bytes > 0 ? 0 : 1;
}
int cuMemcpyHtoD_v2(unsigned long long to, const void* from, size_t bytes) {
  return to != 0 && from == &kernel && bytes > 0 ? 0 : 1;
}
int cuMemcpyPeer(unsigned long long to, void* to_context, unsigned long long from, void* from_context, size_t bytes) {
  return to != from && to_context != from_context && bytes > 0 ? 0 : 1;
}
