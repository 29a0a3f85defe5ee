// State of the plugin, one per process, and what its parts offer each other.
//
// We are guests in someone else's process: no call fails a collective, nothing is allocated and no lock is taken after
// the first init, and every handle and pointer that comes in may be stale, of another process, or garbage. Handles are
// numbers with a generation (docs/formats/trace-ring.md), never addresses. Any thread may call any part; an entry of a
// table is changed by one thread at a time, as NCCL does it; if it ever does not, numbers are wrong and nothing worse.
#pragma once

#include <stdint.h>

#include "lib/ring/writer.h"
#include "tracer/config.h"
#include "tracer/profiler_abi.h"

// Without this every access to the state would go through a table of addresses, as if another library could replace it.
#pragma GCC visibility push(hidden)

enum { kKernels = 1024, kFreeProxies = 1024 };

// What a thread owns. `free` are proxy operations that it stopped: their memory is in its cache.
struct ThreadState {
  struct RingWriter writer;  // entry NULL: no ring was free
  uint32_t countdown;        // callbacks until one is timed
  uint32_t thread;
  uint64_t window_calls, window_timed, window_samples, window_start, window_start_ns;
  uint32_t over_budget_windows;
  uint32_t free_count;
  uint32_t free[kFreeProxies];
};

// Private side of a proxy operation: which thread drives it, the call that it belongs to (RING_NONE: none), and while
// it is open its handle and the one of its step 0. One cache line, and all that a callback of a step has to look at
// before it believes its handle.
struct ProxyOwner {
  _Alignas(64) uint64_t handle;  // 0: not open
  uint64_t steps;                // 0: not open
  uintptr_t thread_pointer;
  struct ThreadState* thread;
  struct RingProxy* proxy;
  uint32_t call;
};

// A kernel on a channel, from its start to its stop.
struct Kernel {
  uint32_t generation;
  uint32_t is_open;
  struct RingKernelRecord record;
};

struct Tracer {
  struct Ring ring;
  int is_on;  // 0 until the ring stands, and in a child of fork
  int version;
  uint32_t tags[8];  // top 20 bits of a handle of each kind
  struct ProxyOwner* owners;
  uint32_t quick_proxies;       // operations below this index may take the quick way (steps.c); all or none
  struct ThreadState* threads;  // one per writer, and a last one for threads without
  struct Kernel* kernels;
  uint32_t next_call, next_proxy, next_kernel;
  uint32_t wanted_mask, seen_mask_sequence, budget_permille;
  int* nccl_mask;
  const int* forward_mask;
  ProfilerLog log;
};

extern struct Tracer g_tracer;

// Thread pointer of the caller: unique among living threads, and one load, where a thread id is a system call.
static inline uintptr_t ThreadPointer(void) {
#if defined(__x86_64__)
  uintptr_t self;
  __asm__("mov %%fs:0, %0" : "=r"(self));
  return self;
#else
  return (uintptr_t)__builtin_thread_pointer();
#endif
}

static inline uint32_t HandleIndex(uint64_t handle) { return handle & 0xffffff; }
static inline uint32_t HandleGeneration(uint64_t handle) { return (handle >> 24) & 0xfffff; }
static inline int IsHandle(uint64_t handle, enum RingHandleKind kind) {
  return (uint32_t)(handle >> 44) == g_tracer.tags[kind];
}

// state.c
struct ThreadState* CurrentThread(void);
void ApplyMask(void);
void PollMask(void);
void TracerLog(const char* format, ...) __attribute__((format(printf, 1, 2)));
int AccountSlow(struct ThreadState* thread, uint64_t began);
// Every callback that read the clock at `began` ends with this; one in 256 is timed. Always 0, so that it can be a
// callback's last word.
static inline int Account(struct ThreadState* thread, uint64_t began) {
  // Relaxed: threads without a ring share one state, and a count that gets lost there times one callback later.
  const uint32_t left = RING_LOAD(thread->countdown) - 1;
  RING_STORE(thread->countdown, left);
  return __builtin_expect(left == 0, 0) ? AccountSlow(thread, began) : 0;
}
// Index of the communicator behind a context; RING_NONE for any other value.
uint32_t CommOf(const void* context);
// What init knows; v1 to v3 know nothing, and their descriptors tell later.
struct CommIdentity {
  uint64_t id;
  const char* name;
  int32_t nodes, ranks, rank;
};
int TracerInit(int version, void** context, int* mask, const struct CommIdentity* identity, ProfilerLog log);
int TracerFinalize(void* context);

// names.c: index of a text that may be NULL or unreadable; 0 for nothing.
uint16_t NameOf(const char* text);
uint16_t NameOfConstant(const char* text);  // a text of ours
void ForgetNames(void);
int CopyText(char* to, size_t size, const char* from);  // 0 when `from` cannot be read

// calls.c
void* StartCall(int version, uint32_t type, void* context, const void* descr);
void StopCall(uint64_t handle);
void RecordCall(uint64_t handle, int state);
struct RingCall* CallOf(uint64_t handle);
void* StartKernel(int version, void* context, const struct DescrKernelCh* descr);
void StopKernel(uint64_t handle);
void RecordKernel(uint64_t handle, int state, const struct StateArgs* args);

// proxy.c
void* StartProxy(void* context, const struct DescrProxyOp* descr);
void StopProxy(uint64_t handle);
void RecordProxy(uint64_t handle, int state, const struct StateArgs* args);
// The open operation behind a handle of it, or at an index for a handle with the same generation; NULL for any other.
struct RingProxy* ProxyOf(uint64_t handle);
struct RingProxy* OpenProxyAt(uint32_t index, uint64_t handle);
// The calling thread, which drives the operation from now on.
struct ThreadState* OwnerThread(uint32_t index);

// steps.c: the callbacks as NCCL calls them, and the general way for steps. Callers have seen that tracing is on.
int TracerStartV4(void* context, void** handle, void* descr, int version);  // and below
int TracerStartV5(void* context, void** handle, void* descr, int version);  // and above
int TracerStop(void* handle);
int TracerRecord(void* handle, int state, void* args);
void* StartStep(const struct DescrProxyStep* descr);
void StopStep(uint64_t handle);
void RecordStep(uint64_t handle, int state, const struct StateArgs* args);

// events.c: callbacks of every kind of event.
static inline uint32_t TypeOf(int version, const struct DescrHead* head) {
  return version >= 5 ? (uint32_t)head->type_word : head->type_byte;
}
int StartEvent(void* context, void** handle, void* descr, int version);
int StopEvent(void* handle);
int RecordEvent(void* handle, int state, void* args);

// forward.c: another plugin behind ours. All are no-ops when none is loaded.
extern int g_forwards;
int LoadForward(const char* path, int version);  // 0, or -1 and a line that says why
void ForwardInit(int version, void** context, const struct CommIdentity* identity, ProfilerLog log);
void ForwardStart(int version, uint32_t type, void* context, void** handle, const void* descr);
void ForwardStop(uint64_t handle);
void ForwardRecord(uint64_t handle, int state, void* args);
void ForwardFinalize(void* context);

#pragma GCC visibility pop
