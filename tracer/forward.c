// Another profiler plugin behind ours (PACELINE_TRACE_FORWARD): NCCL loads one only, and a site may need two.
//
// It sees what NCCL would have shown it, with its own handles in place of ours. Those are kept beside our entries, in
// private memory that is made when the plugin is loaded. Operations of other processes (PXN) are not passed on: their
// context is an address that only that process could follow.
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "tracer/tracer.h"

// Up to glibc 2.33 these lie in libdl with this version; later ones keep it. The default one would need 2.34.
#if defined(__x86_64__)
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
__asm__(".symver dlerror,dlerror@GLIBC_2.2.5");
#endif

enum { kOthers = 4096, kLongestDescr = 128 };

int g_forwards;

// Places for the other plugin's handles. Without a ring of ours, only contexts and others are used.
struct Forward {
  const struct ProfilerTable* table;
  int mask;
  uint32_t comms, calls, proxies;  // capacities
  void** comm;
  void** call;
  void** proxy;
  void** step;
  void* kernel[kKernels];
  void* other[kOthers];
  uint32_t other_generation[kOthers];
  uint32_t next_other;
};
static struct Forward g_forward;

static void** AllocatePlaces(uint32_t count) {
  void* memory = mmap(NULL, (count + 1) * sizeof(void*), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

int LoadForward(const char* path, int version) {
  char symbol[] = "ncclProfiler_v0";
  symbol[sizeof symbol - 2] = (char)('0' + version);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const struct ProfilerTable* table = library == NULL ? NULL : dlsym(library, symbol);
  if (table == NULL) {
    const char* why = dlerror();
    TracerLog("nothing is forwarded to %s: %s", path, why != NULL ? why : "no such plugin");
    return -1;
  }
  memset(&g_forward, 0, sizeof g_forward);
  for (uint32_t kind = 0; kind < 8 && !g_tracer.is_on; kind++) g_tracer.tags[kind] = kind << 16;
  g_forward.comms = g_tracer.is_on ? g_tracer.ring.comms_capacity : 0;
  g_forward.calls = g_tracer.is_on ? g_tracer.ring.calls_capacity : 0;
  g_forward.proxies = g_tracer.is_on ? g_tracer.ring.proxies_capacity : 0;
  g_forward.comm = AllocatePlaces(g_forward.comms);
  g_forward.call = AllocatePlaces(g_forward.calls);
  g_forward.proxy = AllocatePlaces(g_forward.proxies);
  g_forward.step = AllocatePlaces(g_forward.proxies * RING_STEPS);
  if (g_forward.comm == NULL || g_forward.call == NULL || g_forward.proxy == NULL || g_forward.step == NULL) return -1;
  g_forward.table = table;
  g_tracer.forward_mask = &g_forward.mask;
  __atomic_store_n(&g_forwards, 1, __ATOMIC_RELEASE);
  return 0;
}

// Where the other plugin's handle for one of ours lies; NULL for what is stale or not ours.
static void** PlaceOf(uint64_t handle) {
  const uint32_t index = HandleIndex(handle);
  if (IsHandle(handle, RING_HANDLE_OTHER)) {
    const int is_current =
        index < kOthers && (RING_LOAD(g_forward.other_generation[index]) & 0xfffff) == HandleGeneration(handle);
    return is_current && HandleGeneration(handle) != 0 ? &g_forward.other[index] : NULL;
  }
  if (IsHandle(handle, RING_HANDLE_COMM))
    return CommOf((void*)(uintptr_t)handle) < g_forward.comms ? &g_forward.comm[index] : NULL;
  if (IsHandle(handle, RING_HANDLE_CALL)) return CallOf(handle) != NULL ? &g_forward.call[index] : NULL;
  if (IsHandle(handle, RING_HANDLE_KERNEL)) return index < kKernels ? &g_forward.kernel[index] : NULL;
  const int is_step = IsHandle(handle, RING_HANDLE_STEP);
  const uint32_t proxy = is_step ? index / RING_STEPS : index;
  if ((!is_step && !IsHandle(handle, RING_HANDLE_PROXY)) || proxy >= g_forward.proxies) return NULL;
  if ((RING_LOAD(g_tracer.ring.proxies[proxy].generation) & 0xfffff) != HandleGeneration(handle)) return NULL;
  return is_step ? &g_forward.step[index] : &g_forward.proxy[index];
}

static void* Theirs(const void* ours) {
  void** place = PlaceOf((uint64_t)(uintptr_t)ours);
  return place != NULL ? RING_LOAD(*place) : NULL;
}

// A place of its own for an event that we do not keep.
static void* WrapOther(void* theirs) {
  uint32_t index = 0;
  for (int probe = 0; probe < 64; probe++) {
    index = __atomic_fetch_add(&g_forward.next_other, 1, __ATOMIC_RELAXED) % kOthers;
    if (RING_LOAD(g_forward.other[index]) == NULL) break;
  }
  // Where all are taken, the last one looked at was most likely never going to be stopped: it goes.
  uint32_t generation = RING_LOAD(g_forward.other_generation[index]) + 1;
  if ((generation & 0xfffff) == 0) generation++;
  RING_STORE(g_forward.other_generation[index], generation);
  RING_STORE(g_forward.other[index], theirs);
  return (void*)(uintptr_t)RingHandle(&g_tracer.ring, RING_HANDLE_OTHER, generation, index);
}

void ForwardInit(int version, void** context, const struct CommIdentity* identity, ProfilerLog log) {
  if (!g_forwards) return;
  void* theirs = NULL;
  int result;
  if (version <= 3) {
    result = ((ProfilerInitV1)g_forward.table->init)(&theirs, &g_forward.mask);
  } else if (version == 4) {
    result = ((ProfilerInitV4)g_forward.table->init)(&theirs, &g_forward.mask, identity->name, identity->id,
                                                     identity->nodes, identity->ranks, identity->rank, log);
  } else {
    result = ((ProfilerInitV5)g_forward.table->init)(&theirs, identity->id, &g_forward.mask, identity->name,
                                                     identity->nodes, identity->ranks, identity->rank, log);
  }
  if (result != 0) {
    TracerLog("nothing is forwarded to %s: its init returned %d", g_forward.table->name, result);
    RING_STORE(g_forwards, 0);
    RING_STORE(g_forward.mask, 0);
    return;
  }
  void** place = PlaceOf((uint64_t)(uintptr_t)*context);
  if (place != NULL) {
    RING_STORE(*place, theirs);
  } else if (theirs != NULL) {
    *context = WrapOther(theirs);
  }
}

static size_t DescrBytes(int version) {
  static const size_t kBytes[] = {0, kDescrBytesV1, kDescrBytesV2, kDescrBytesV3, kDescrBytesV4, kDescrBytesV5};
  return version <= 5 ? kBytes[version] : (size_t)kDescrBytesV5;
}

static void ForgetEntry(void** place, const void* handle) {
  RING_STORE(*place, NULL);
  if (!IsHandle((uint64_t)(uintptr_t)handle, RING_HANDLE_PROXY)) return;
  void** steps = &g_forward.step[HandleIndex((uint64_t)(uintptr_t)handle) * RING_STEPS];
  for (uint32_t i = 0; i < RING_STEPS; i++) RING_STORE(steps[i], NULL);
}

void ForwardStart(int version, uint32_t type, void* context, void** handle, const void* descr) {
  void** place = PlaceOf((uint64_t)(uintptr_t)*handle);
  // What lies there belongs to whatever had the entry before, which may never have been stopped.
  if (place != NULL && type != kEventProxyStep) ForgetEntry(place, *handle);
  if (((uint32_t)RING_LOAD(g_forward.mask) & type) == 0) return;
  if (type == kEventProxyOp && ((const struct DescrProxyOp*)descr)->pid != g_tracer.ring.pid) return;
  _Alignas(16) unsigned char copy[kLongestDescr];
  memcpy(copy, descr, DescrBytes(version));
  struct DescrHead* head = (struct DescrHead*)copy;
  head->parent = Theirs(head->parent);
  if (type == kEventProxyStep && head->parent == NULL) return;
  void** group = NULL;
  if (version >= 5 && type == kEventColl) group = &((struct DescrCollV5*)copy)->parent_group;
  if (version >= 5 && type == kEventP2p) group = &((struct DescrP2pV5*)copy)->parent_group;
  if (group != NULL) *group = Theirs(*group);
  // A step that is started again on every poll keeps its first handle there too.
  if (type == kEventProxyStep && place != NULL && RING_LOAD(*place) != NULL) return;
  void* theirs = NULL;
  g_forward.table->start(Theirs(context), &theirs, copy);
  if (place != NULL) {
    RING_STORE(*place, theirs);
  } else if (theirs != NULL) {
    *handle = WrapOther(theirs);
  }
}

void ForwardStop(uint64_t handle) {
  void** place = PlaceOf(handle);
  void* theirs = place != NULL ? RING_LOAD(*place) : NULL;
  if (theirs == NULL) return;
  g_forward.table->stop(theirs);
  // Others see a Coll's handle as parent after its stop; so it stays there until its entry is used again.
  if (!IsHandle(handle, RING_HANDLE_CALL)) RING_STORE(*place, NULL);
}

void ForwardRecord(uint64_t handle, int state, void* args) {
  void* theirs = Theirs((void*)(uintptr_t)handle);
  if (theirs != NULL) g_forward.table->record(theirs, state, args);
}

void ForwardFinalize(void* context) {
  if (!g_forwards) return;
  void** place = PlaceOf((uint64_t)(uintptr_t)context);
  void* theirs = place != NULL ? RING_LOAD(*place) : NULL;
  if (theirs == NULL) return;
  g_forward.table->finalize(theirs);
  RING_STORE(*place, NULL);
}
