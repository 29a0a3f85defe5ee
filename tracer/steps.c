// Steps of proxy operations, the hot path: each chunk that moves over the network makes four or five callbacks. So they
// come here first, and where a private line of memory says that the handle is that of a step whose operation is open
// and driven by this thread, they go the quick way: some fifty instructions, one reading of the TSC, no function call
// (it would cost a dozen registers saved and restored), no lock, no system call, nothing allocated. Everything else, of
// steps or of other events, goes the general way through events.c.
#include "tracer/tracer.h"

enum Way { kQuick, kGeneral };

// Who calls, and when.
struct Caller {
  struct ThreadState* thread;
  uint64_t now;
};

static inline int IsOpenStep(uint32_t state) { return state != RING_STEP_NONE && state != RING_STEP_STOP; }

// Whether the quick way is open to the caller at all, for an operation of this index.
static inline int IsQuick(uint32_t index) {
#if defined(__x86_64__)
  return index < RING_LOAD(g_tracer.quick_proxies) &&
         RING_LOAD(g_tracer.owners[index].thread_pointer) == ThreadPointer();
#else
  (void)index;
  return 0;
#endif
}

static inline uint32_t ProxyIndex(uint64_t step) { return HandleIndex(step) / RING_STEPS; }

// Handles of one operation's steps differ in their lowest bits only.
static inline int IsQuickStep(uint64_t handle) {
  return IsQuick(ProxyIndex(handle)) && (RING_LOAD(g_tracer.owners[ProxyIndex(handle)].steps) ^ handle) < RING_STEPS;
}

static inline struct Caller CallerOf(enum Way way, const struct ProxyOwner* owner) {
#if defined(__x86_64__)
  if (way == kQuick) return (struct Caller){RING_LOAD(owner->thread), __builtin_ia32_rdtsc()};
#endif
  (void)way;
  return (struct Caller){OwnerThread((uint32_t)(owner - g_tracer.owners)), RingNow(&g_tracer.ring)};
}

// Shared tail of every change of a step; always 0, NCCL's success.
static inline int EndChange(enum Way way, struct RingProxy* proxy, struct RingStep* step, uint32_t state, uint32_t odd,
                            struct Caller caller) {
  RING_STORE(step->state, (uint16_t)state);
  RING_STORE(step->time, caller.now);
  RING_STORE(proxy->last_state, state);
  RING_STORE(proxy->last, caller.now);
  RingEndWrite(&proxy->version, odd);
  if (way == kGeneral) return Account(caller.thread, caller.now);
  // A thread that comes here shares its state with nobody (OwnerThread).
  return __builtin_expect(--caller.thread->countdown == 0, 0) ? AccountSlow(caller.thread, caller.now) : 0;
}

#define INLINE static inline __attribute__((always_inline))

INLINE int StartStepBy(enum Way way, const struct ProxyOwner* owner, const struct DescrProxyStep* descr,
                       void** handle) {
  struct RingProxy* proxy = owner->proxy;
  const uint32_t number = (uint32_t)descr->step, slot = number % RING_STEPS;
  struct RingStep* step = &proxy->step[slot];
  *handle = (void*)(uintptr_t)(RING_LOAD(owner->steps) | slot);
  const int was_open = __builtin_expect(IsOpenStep(RING_LOAD(step->state)), 0);
  // A receive that the network does not take is started again on every poll.
  if (was_open && RING_LOAD(step->number) == number) return 0;
  const struct Caller caller = CallerOf(way, owner);
  const uint32_t odd = RingBeginWrite(&proxy->version);
  if (was_open) {
    RING_ADD(proxy->done, 1);
    RING_STORE(proxy->flags, proxy->flags | RING_PROXY_LOST_STOP);
    RingCountDrop(&g_tracer.ring, RING_DROP_LOST_STOP);
  }
  RING_STORE(step->number, number);
  RING_ADD(proxy->started, 1);
  return EndChange(way, proxy, step, RING_STEP_START, odd, caller);
}

// What a callback says of a step, and what was known before.
struct Change {
  struct RingProxy* proxy;
  struct RingStep* step;
  uint32_t old;
  const struct StateArgs* args;
};

// A step goes through three states, by direction: posted (a send waits for the GPU), ready (a send waits for the
// receiver, a receive for its flush), moved. It may leave out some, and never goes back. Called with constants for all
// but `owner` and `change`, so that each state gets code of its own.
INLINE int MoveStep(enum Way way, const struct ProxyOwner* owner, struct Change change, uint32_t posted, uint32_t ready,
                    uint32_t state) {
  struct RingProxy* proxy = change.proxy;
  const uint32_t old = change.old;
  const int was_ready = state != posted && state != ready && old == ready;
  if (__builtin_expect(!was_ready && !(state != posted && old == posted) && old != RING_STEP_START, 0)) {
    RingCountDrop(&g_tracer.ring, RING_DROP_BAD_STATE);
    return 0;
  }
  const struct Caller caller = CallerOf(way, owner);
  const uint32_t odd = RingBeginWrite(&proxy->version);
  if (state == posted) {
    RING_ADD(proxy->posted, 1);
  } else {
    if (!was_ready) RING_ADD(proxy->ready, 1);
    if (state != ready) RING_ADD(proxy->moved, 1);
    RING_ADD(proxy->wait[was_ready], caller.now - RING_LOAD(change.step->time));
  }
  // The size is of this step only when it was given to the network, or came from there.
  const int is_sized = state == kStateStepSendWait || state == kStateStepRecvFlushWait;
  if (is_sized && change.args != NULL && g_tracer.version >= 4) RING_ADD(proxy->bytes, change.args->trans_bytes);
  return EndChange(way, proxy, change.step, state, odd, caller);
}

INLINE int RecordStepBy(enum Way way, const struct ProxyOwner* owner, uint64_t handle, uint32_t state,
                        const struct StateArgs* args) {
  enum { kSendPosted = kStateStepSendGpuWait, kSendReady = kStateStepSendPeerWait, kSendMoved = kStateStepSendWait };
  enum { kRecvPosted = kStateStepRecvWait, kRecvReady = kStateStepRecvFlushWait, kRecvMoved = kStateStepRecvGpuWait };
  struct RingProxy* proxy = owner->proxy;
  struct RingStep* step = &proxy->step[handle % RING_STEPS];
  const struct Change change = {proxy, step, RING_LOAD(step->state), args};
  // While the receiver has no room this comes at the speed of the polling loop: no clock, no store.
  if (change.old == state) return 0;
  if (proxy->is_send) {  // set at the start of the operation, by the same thread
    if (state == kSendMoved) return MoveStep(way, owner, change, kSendPosted, kSendReady, kSendMoved);
    if (state == kSendReady) return MoveStep(way, owner, change, kSendPosted, kSendReady, kSendReady);
    if (state == kSendPosted) return MoveStep(way, owner, change, kSendPosted, kSendReady, kSendPosted);
  } else {
    if (state == kRecvMoved) return MoveStep(way, owner, change, kRecvPosted, kRecvReady, kRecvMoved);
    if (state == kRecvReady) return MoveStep(way, owner, change, kRecvPosted, kRecvReady, kRecvReady);
    if (state == kRecvPosted) return MoveStep(way, owner, change, kRecvPosted, kRecvReady, kRecvPosted);
  }
  RingCountDrop(&g_tracer.ring, RING_DROP_BAD_STATE);
  return 0;
}

INLINE int StopStepBy(enum Way way, const struct ProxyOwner* owner, uint64_t handle) {
  struct RingProxy* proxy = owner->proxy;
  struct RingStep* step = &proxy->step[handle % RING_STEPS];
  if (__builtin_expect(!IsOpenStep(RING_LOAD(step->state)), 0)) {
    RingCountDrop(&g_tracer.ring, RING_DROP_STALE_HANDLE);
    return 0;
  }
  const struct Caller caller = CallerOf(way, owner);
  const uint32_t odd = RingBeginWrite(&proxy->version);
  RING_ADD(proxy->done, 1);
  RING_ADD(proxy->wait[2], caller.now - RING_LOAD(step->time));
  return EndChange(way, proxy, step, RING_STEP_STOP, odd, caller);
}

INLINE int StartOf(uint32_t type, void* context, void** handle, void* descr, int version) {
  if (__builtin_expect(type == kEventProxyStep, 1)) {
    const uint64_t parent = (uint64_t)(uintptr_t)((const struct DescrHead*)descr)->parent;
    const uint32_t index = HandleIndex(parent);
    if (__builtin_expect(IsQuick(index) && RING_LOAD(g_tracer.owners[index].handle) == parent, 1)) {
      return StartStepBy(kQuick, &g_tracer.owners[index], descr, handle);
    }
  }
  return StartEvent(context, handle, descr, version);
}

// Two, so that a step does not ask for the version of the interface.
int TracerStartV4(void* context, void** handle, void* descr, int version) {
  if (__builtin_expect(handle == NULL || descr == NULL, 0)) return 0;
  return StartOf(TypeOf(4, descr), context, handle, descr, version);
}

int TracerStartV5(void* context, void** handle, void* descr, int version) {
  if (__builtin_expect(handle == NULL || descr == NULL, 0)) return 0;
  return StartOf(TypeOf(5, descr), context, handle, descr, version);
}

int TracerRecord(void* opaque, int state, void* args) {
  const uint64_t handle = (uint64_t)(uintptr_t)opaque;
  if (__builtin_expect(!IsQuickStep(handle), 0)) return RecordEvent(opaque, state, args);
  return RecordStepBy(kQuick, &g_tracer.owners[ProxyIndex(handle)], handle, (uint32_t)state, args);
}

int TracerStop(void* opaque) {
  const uint64_t handle = (uint64_t)(uintptr_t)opaque;
  if (__builtin_expect(!IsQuickStep(handle), 0)) return StopEvent(opaque);
  return StopStepBy(kQuick, &g_tracer.owners[ProxyIndex(handle)], handle);
}

// The operation of a step whose handle has the right kind; NULL, and counted, when it is not open any more.
static const struct ProxyOwner* OwnerOfStep(uint64_t handle) {
  const uint32_t index = ProxyIndex(handle);
  if (OpenProxyAt(index, handle) != NULL) return &g_tracer.owners[index];
  RingCountDrop(&g_tracer.ring, RING_DROP_STALE_HANDLE);
  return NULL;
}

void* StartStep(const struct DescrProxyStep* descr) {
  const uint64_t parent = (uint64_t)(uintptr_t)descr->head.parent;
  void* handle = NULL;
  if (ProxyOf(parent) != NULL) {
    StartStepBy(kGeneral, &g_tracer.owners[HandleIndex(parent)], descr, &handle);
  } else if (parent != 0) {
    // Without a parent NCCL was given no handle for the operation; that was counted there.
    RingCountDrop(&g_tracer.ring, RING_DROP_STALE_HANDLE);
  }
  return handle;
}

void RecordStep(uint64_t handle, int state, const struct StateArgs* args) {
  const struct ProxyOwner* owner = OwnerOfStep(handle);
  if (owner != NULL) RecordStepBy(kGeneral, owner, handle, (uint32_t)state, args);
}

void StopStep(uint64_t handle) {
  const struct ProxyOwner* owner = OwnerOfStep(handle);
  if (owner != NULL) StopStepBy(kGeneral, owner, handle);
}
