// Proxy operations: what moves over the network for one call on one channel. Their steps are in steps.c.
#include "tracer/tracer.h"

enum { kProbes = 64 };

static void SetOwner(uint32_t index, struct ThreadState* thread) {
  RING_STORE(g_tracer.owners[index].thread, thread);
  // Zero matches no thread: one without a ring shares its state, and never goes the quick way.
  RING_STORE(g_tracer.owners[index].thread_pointer, thread->writer.entry != NULL ? ThreadPointer() : 0);
}

struct ThreadState* OwnerThread(uint32_t index) {
  struct ThreadState* thread = CurrentThread();
  if (RING_LOAD(g_tracer.owners[index].thread_pointer) != ThreadPointer()) SetOwner(index, thread);
  return thread;
}

struct RingProxy* OpenProxyAt(uint32_t index, uint64_t handle) {
  if (index >= g_tracer.ring.proxies_capacity) return NULL;
  struct RingProxy* proxy = &g_tracer.ring.proxies[index];
  if ((RING_LOAD(proxy->generation) & 0xfffff) != HandleGeneration(handle)) return NULL;
  return RING_LOAD(proxy->state) == RING_OPEN ? proxy : NULL;
}

struct RingProxy* ProxyOf(uint64_t handle) {
  return IsHandle(handle, RING_HANDLE_PROXY) ? OpenProxyAt(HandleIndex(handle), handle) : NULL;
}

static int Claim(struct RingProxy* proxy, uint32_t from) {
  return __atomic_compare_exchange_n(&proxy->state, &from, RING_OPEN, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

// An operation of a communicator that was aborted gets no stop; its entry may be taken.
static int IsAbandoned(const struct RingProxy* proxy) {
  const uint32_t comm = RING_LOAD(proxy->comm);
  return comm < g_tracer.ring.comms_capacity && RING_LOAD(g_tracer.ring.comms[comm].state) == RING_STOPPED;
}

static uint32_t AllocateProxy(struct ThreadState* thread) {
  while (thread->free_count > 0) {
    const uint32_t index = thread->free[--thread->free_count];
    if (Claim(&g_tracer.ring.proxies[index], RING_STOPPED)) return index;
  }
  for (int probe = 0; probe < kProbes; probe++) {
    const uint32_t next = __atomic_fetch_add(&g_tracer.next_proxy, 1, __ATOMIC_RELAXED);
    const uint32_t index = next % g_tracer.ring.proxies_capacity;
    struct RingProxy* proxy = &g_tracer.ring.proxies[index];
    const uint32_t state = RING_LOAD(proxy->state);
    if (state == RING_OPEN && !IsAbandoned(proxy)) continue;
    if (state == RING_OPEN || Claim(proxy, state)) {
      uint32_t* used = &g_tracer.ring.header->proxies_used;
      uint32_t seen = RING_LOAD(*used);
      while (seen <= index &&
             !__atomic_compare_exchange_n(used, &seen, index + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      }
      return index;
    }
  }
  RingCountDrop(&g_tracer.ring, RING_DROP_PROXY);
  return RING_NONE;
}

static void AttachToCall(uint32_t index, uint64_t call_handle, int is_foreign) {
  struct RingCall* call = is_foreign ? NULL : CallOf(call_handle);
  RING_STORE(g_tracer.owners[index].call, call != NULL ? HandleIndex(call_handle) : RING_NONE);
  if (call == NULL) return;
  // Several proxy threads may serve one call: beside the sequence lock, by locked instructions.
  __atomic_fetch_add(&call->open_proxies, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&call->proxies, 1, __ATOMIC_RELAXED);
}

void* StartProxy(void* context, const struct DescrProxyOp* descr) {
  struct ThreadState* thread = CurrentThread();
  const uint64_t now = RingNow(&g_tracer.ring);
  const uint32_t index = AllocateProxy(thread);
  if (index == RING_NONE) return NULL;
  struct RingProxy* proxy = &g_tracer.ring.proxies[index];
  const uint64_t call = (uint64_t)(uintptr_t)descr->head.parent;
  // With PXN this is another process's operation: context and parent are handles of that process.
  const int is_foreign = descr->pid != g_tracer.ring.pid;
  const uint32_t odd = RingBeginWrite(&proxy->version);
  const uint32_t generation = RING_LOAD(proxy->generation) + 1;
  RING_STORE(proxy->generation, generation);
  RING_STORE(proxy->state, RING_OPEN);
  RING_STORE(proxy->comm, is_foreign ? RING_NONE : CommOf(context));
  RING_STORE(proxy->pid, descr->pid);
  RING_STORE(proxy->rank, descr->head.rank);
  RING_STORE(proxy->peer, descr->peer);
  RING_STORE(proxy->channel, descr->channel);
  RING_STORE(proxy->is_send, descr->is_send != 0);
  RING_STORE(proxy->flags, is_foreign ? RING_PROXY_FOREIGN : 0);
  RING_STORE(proxy->steps, (uint32_t)descr->steps);
  RING_STORE(proxy->chunk_bytes, (uint32_t)descr->chunk_bytes);
  RING_STORE(proxy->call, call);
  RING_STORE(proxy->context, (uint64_t)(uintptr_t)context);
  RING_STORE(proxy->start, now);
  RING_STORE(proxy->started, 0);
  RING_STORE(proxy->posted, 0);
  RING_STORE(proxy->ready, 0);
  RING_STORE(proxy->moved, 0);
  RING_STORE(proxy->done, 0);
  RING_STORE(proxy->last_state, 0xffffu);
  RING_STORE(proxy->last, now);
  RING_STORE(proxy->bytes, 0);
  for (int i = 0; i < 3; i++) RING_STORE(proxy->wait[i], 0);
  for (uint32_t i = 0; i < RING_STEPS; i++) RING_STORE(proxy->step[i].state, RING_STEP_NONE);
  RingEndWrite(&proxy->version, odd);
  SetOwner(index, thread);
  AttachToCall(index, call, is_foreign);
  Account(thread, now);
  struct ProxyOwner* owner = &g_tracer.owners[index];
  owner->proxy = proxy;
  RING_STORE(owner->steps, RingHandle(&g_tracer.ring, RING_HANDLE_STEP, generation, index * RING_STEPS));
  const uint64_t handle = RingHandle(&g_tracer.ring, RING_HANDLE_PROXY, generation, index);
  RING_STORE(owner->handle, handle);
  return (void*)(uintptr_t)handle;
}

static void PushProxy(struct ThreadState* thread, const struct RingProxy* proxy) {
  if (thread->writer.entry == NULL) {
    RingCountDrop(&g_tracer.ring, RING_DROP_RECORD);
    return;
  }
  RingPush(&thread->writer, RING_RECORD_PROXY, &proxy->comm);
}

void StopProxy(uint64_t handle) {
  struct RingProxy* proxy = ProxyOf(handle);
  if (proxy == NULL) {
    RingCountDrop(&g_tracer.ring, RING_DROP_STALE_HANDLE);
    return;
  }
  const uint32_t index = HandleIndex(handle);
  struct ThreadState* thread = OwnerThread(index);
  const uint64_t now = RingNow(&g_tracer.ring);
  const uint32_t odd = RingBeginWrite(&proxy->version);
  RING_STORE(proxy->last, now);
  PushProxy(thread, proxy);
  RING_STORE(proxy->state, RING_STOPPED);
  RingEndWrite(&proxy->version, odd);
  RING_STORE(g_tracer.owners[index].handle, 0);
  RING_STORE(g_tracer.owners[index].steps, 0);
  const uint32_t call = RING_LOAD(g_tracer.owners[index].call);
  if (call != RING_NONE) {
    __atomic_fetch_sub(&g_tracer.ring.calls[call].open_proxies, 1, __ATOMIC_RELAXED);
    RING_STORE(g_tracer.ring.calls[call].last, now);
  }
  // The thread without a ring is shared, and keeps no list.
  if (thread->writer.entry != NULL && thread->free_count < kFreeProxies) thread->free[thread->free_count++] = index;
  Account(thread, now);
}

// NCCL up to 2.26 counts steps per operation and says nothing of the single ones but their waits.
static void RecordOldState(struct RingProxy* proxy, int state, uint32_t steps, uint64_t bytes) {
  switch (state) {
    case kStateOpSendPosted:
    case kStateOpRecvPosted: RING_STORE(proxy->posted, steps); break;
    case kStateOpSendRemFifoWait:
    case kStateOpRecvReceived: RING_STORE(proxy->ready, steps); break;
    case kStateOpSendTransmitted:
    case kStateOpRecvTransmitted: RING_STORE(proxy->moved, steps); break;
    default: RING_STORE(proxy->done, steps); break;
  }
  // The size is that of the last step that was given to the network, or came from there.
  if (state == kStateOpSendTransmitted || state == kStateOpRecvReceived) RING_ADD(proxy->bytes, bytes);
}

void RecordProxy(uint64_t handle, int state, const struct StateArgs* args) {
  struct RingProxy* proxy = ProxyOf(handle);
  if (proxy == NULL) {
    RingCountDrop(&g_tracer.ring, RING_DROP_STALE_HANDLE);
    return;
  }
  const int is_old = state >= kStateOpSendPosted && state <= kStateOpRecvDone;
  if (state != kStateOpInProgress && !is_old) {
    RingCountDrop(&g_tracer.ring, RING_DROP_BAD_STATE);
    return;
  }
  struct ThreadState* thread = OwnerThread(HandleIndex(handle));
  const uint64_t now = RingNow(&g_tracer.ring);
  const uint32_t odd = RingBeginWrite(&proxy->version);
  if (state == kStateOpInProgress) RING_STORE(proxy->flags, proxy->flags | RING_PROXY_IN_PROGRESS);
  // Arguments with steps exist in v1 to v3 only.
  if (is_old && args != NULL && g_tracer.version <= 3) {
    RecordOldState(proxy, state, (uint32_t)args->steps, args->trans_bytes);
  }
  RING_STORE(proxy->last_state, (uint32_t)state);
  RING_STORE(proxy->last, now);
  RingEndWrite(&proxy->version, odd);
  Account(thread, now);
}
