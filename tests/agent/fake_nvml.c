// A library with NVML's interface, as the agent opens it: two GPUs, of which the second has fallen off the bus. What it
// cannot show is how a real driver behaves; the layout of its calls is NVML's.
#include <string.h>

#ifdef PACELINE_NVML_BROKEN
int nvmlInit_v2(void) { return 9; }
#else
int nvmlInit_v2(void) { return 0; }
#endif
int nvmlShutdown(void) { return 0; }
const char* nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "GPU is lost"; }

static int Put(const char* from, char* text, unsigned length) {
  if (strlen(from) + 1 > length) return 7;  // insufficient size
  strcpy(text, from);
  return 0;
}

int nvmlSystemGetDriverVersion(char* text, unsigned length) { return Put("580.65.06", text, length); }
int nvmlSystemGetCudaDriverVersion_v2(int* version) { return *version = 13010, 0; }
int nvmlDeviceGetCount_v2(unsigned* count) { return *count = 2, 0; }

static int first_device;
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index != 0) return 15;  // GPU is lost
  *device = &first_device;
  return 0;
}
int nvmlDeviceGetName(void* device, char* text, unsigned length) {
  return device == &first_device ? Put("NVIDIA H200", text, length) : 2;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned length) {
  return device == &first_device ? Put("GPU-1", text, length) : 2;
}
// Power cap, which is usual, and heat.
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  (void)device;
  *reasons = 0x4 | 0x40;
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void* device, int error_type, int counter_type, unsigned long long* count) {
  (void)device;
  *count = error_type == 1 && counter_type == 0 ? 2 : 0;
  return 0;
}
// Two links; the second one fails a little more each time that it is asked.
int nvmlDeviceGetNvLinkErrorCounter(void* device, unsigned link, int counter, unsigned long long* count) {
  static unsigned long long errors = 100;
  (void)device;
  if (link > 1) return 2;
  *count = link == 1 && counter == 2 ? ++errors : 0;
  return 0;
}

int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
  (void)device;
  memory[0] = 150754820096ull;
  memory[1] = 150000000000ull;
  memory[2] = 754820096ull;
  return 0;
}
