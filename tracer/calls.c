// Calls: what the application asked NCCL for, and where it is within NCCL. Some ten per collective, on its own threads.
#include "tracer/tracer.h"

enum { kProbes = 16, kCapturedFlag = 1 };

// A descriptor of any version and type.
struct Call {
  uint64_t comm_id, sequence, count;
  const char *name, *func, *datatype, *algo, *proto;
  uint16_t func_name, datatype_name, algo_name, proto_name;  // v1 has numbers where later ones have texts
  int32_t peer;
  uint16_t channels, flags;
};

static uint16_t NameOfNumber(const char* const* names, uint32_t count, uint32_t number) {
  return number < count ? NameOfConstant(names[number]) : NameOfConstant("?");
}

static uint16_t FuncOfNumber(uint8_t number) {
  static const char* const kNames[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                       "AllReduce", "SendRecv", "Send",      "Recv"};
  return NameOfNumber(kNames, sizeof kNames / sizeof kNames[0], number);
}

static uint16_t DatatypeOfNumber(uint8_t number) {
  static const char* const kNames[] = {"ncclInt8",   "ncclUint8",   "ncclInt32",   "ncclUint32",  "ncclInt64",
                                       "ncclUint64", "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"};
  return NameOfNumber(kNames, sizeof kNames / sizeof kNames[0], number);
}

static uint16_t AlgoOfNumber(uint8_t number) {
  static const char* const kNames[] = {"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
  return NameOfNumber(kNames, sizeof kNames / sizeof kNames[0], number);
}

static uint16_t ProtoOfNumber(uint8_t number) {
  static const char* const kNames[] = {"LL", "LL128", "SIMPLE"};
  return NameOfNumber(kNames, sizeof kNames / sizeof kNames[0], number);
}

static void DecodeColl(int version, const void* descr, struct Call* call) {
  if (version == 1) {
    const struct DescrCollV1* v1 = descr;
    *call = (struct Call){.comm_id = v1->comm_hash,
                          .sequence = v1->sequence,
                          .count = v1->count,
                          .name = v1->name,
                          .peer = v1->root,
                          .channels = v1->channels};
    call->func_name = FuncOfNumber(v1->func);
    call->datatype_name = DatatypeOfNumber(v1->datatype);
    call->algo_name = AlgoOfNumber(v1->algo);
    call->proto_name = ProtoOfNumber(v1->proto);
  } else if (version == 2) {
    const struct DescrCollV2* v2 = descr;
    *call = (struct Call){.comm_id = v2->comm_hash,
                          .sequence = v2->sequence,
                          .count = v2->count,
                          .name = v2->name,
                          .func = v2->func,
                          .datatype = v2->datatype,
                          .algo = v2->algo,
                          .proto = v2->proto,
                          .peer = v2->root,
                          .channels = v2->channels};
  } else if (version == 3) {
    const struct DescrCollV3* v3 = descr;
    *call = (struct Call){.comm_id = v3->comm_hash,
                          .sequence = v3->sequence,
                          .count = v3->count,
                          .name = v3->name,
                          .func = v3->func,
                          .datatype = v3->datatype,
                          .algo = v3->algo,
                          .proto = v3->proto,
                          .peer = v3->root,
                          .channels = v3->channels};
  } else {
    const struct DescrCollV4* v4 = descr;
    *call = (struct Call){.sequence = v4->sequence,
                          .count = v4->count,
                          .func = v4->func,
                          .datatype = v4->datatype,
                          .algo = v4->algo,
                          .proto = v4->proto,
                          .peer = v4->root,
                          .channels = v4->channels};
  }
}

static void DecodeP2p(int version, const void* descr, struct Call* call) {
  if (version == 1) {
    const struct DescrP2pV1* v1 = descr;
    *call = (struct Call){.comm_id = v1->comm_hash, .count = v1->count, .name = v1->name, .peer = v1->peer};
    call->func_name = FuncOfNumber(v1->func);
    call->datatype_name = DatatypeOfNumber(v1->datatype);
  } else if (version <= 3) {
    const struct DescrP2pV2* v2 = descr;
    *call = (struct Call){.comm_id = v2->comm_hash,
                          .count = v2->count,
                          .name = v2->name,
                          .func = v2->func,
                          .datatype = v2->datatype,
                          .peer = v2->peer};
  } else {
    const struct DescrP2pV4* v4 = descr;
    *call = (struct Call){.count = v4->count, .func = v4->func, .datatype = v4->datatype, .peer = v4->peer};
    // Through the adapters of 2.28 to 2.30 a v4 descriptor holds garbage here.
    if (version >= 5) call->channels = v4->channels;
  }
}

static void Decode(int version, uint32_t type, const void* descr, struct Call* call) {
  *call = (struct Call){.peer = -1};
  if (type == kEventColl) {
    DecodeColl(version, descr, call);
  } else if (type == kEventP2p) {
    DecodeP2p(version, descr, call);
  } else if (type == kEventCollApi) {
    const struct DescrCollApi* api = descr;
    *call = (struct Call){.count = api->count,
                          .func = api->func,
                          .datatype = api->datatype,
                          .peer = api->root,
                          .flags = api->is_captured ? kCapturedFlag : 0};
  } else if (type == kEventP2pApi) {
    const struct DescrP2pApi* api = descr;
    *call = (struct Call){.count = api->count,
                          .func = api->func,
                          .datatype = api->datatype,
                          .peer = -1,
                          .flags = api->is_captured ? kCapturedFlag : 0};
  } else if (type == kEventGroupApi) {
    if (((const struct DescrGroupApi*)descr)->is_captured) call->flags = kCapturedFlag;
  } else if (type == kEventCeColl) {
    const struct DescrCeColl* ce = descr;
    *call = (struct Call){
        .sequence = ce->sequence, .count = ce->count, .func = ce->func, .datatype = ce->datatype, .peer = ce->root};
  }
  if (call->func != NULL) call->func_name = NameOf(call->func);
  if (call->datatype != NULL) call->datatype_name = NameOf(call->datatype);
  if (call->algo != NULL) call->algo_name = NameOf(call->algo);
  if (call->proto != NULL) call->proto_name = NameOf(call->proto);
}

// The next entry in turn that nothing needs any more: stopped, without open proxy operations; or of a communicator that
// is closed.
static uint32_t AllocateCall(uint32_t* generation) {
  for (int probe = 0; probe < kProbes; probe++) {
    const uint32_t next = __atomic_fetch_add(&g_tracer.next_call, 1, __ATOMIC_RELAXED);
    const uint32_t index = next % g_tracer.ring.calls_capacity;
    struct RingCall* call = &g_tracer.ring.calls[index];
    uint32_t old = RING_LOAD(call->generation);
    const uint32_t comm = RING_LOAD(call->comm);
    const int is_abandoned = RING_LOAD(call->state) != RING_FREE && comm < g_tracer.ring.comms_capacity &&
                             RING_LOAD(g_tracer.ring.comms[comm].state) == RING_STOPPED;
    const int is_needed = RING_LOAD(call->state) == RING_OPEN || RING_LOAD(call->open_proxies) != 0;
    if (is_needed && !is_abandoned) continue;
    if (!__atomic_compare_exchange_n(&call->generation, &old, old + 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) continue;
    *generation = old + 1;
    uint32_t* used = &g_tracer.ring.header->calls_used;
    uint32_t seen = RING_LOAD(*used);
    while (seen <= index &&
           !__atomic_compare_exchange_n(used, &seen, index + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return index;
  }
  RingCountDrop(&g_tracer.ring, RING_DROP_CALL);
  return RING_NONE;
}

// v1 to v3 tell what communicator this is only here.
static void IdentifyComm(struct RingComm* comm, const struct Call* call, int32_t rank) {
  char name[sizeof comm->name];
  CopyText(name, sizeof name, call->name);
  const uint32_t odd = RingBeginWrite(&comm->version);
  RING_STORE(comm->comm_id, call->comm_id);
  RING_STORE(comm->rank, rank);
  for (size_t i = 0; i < sizeof name; i++) RING_STORE(comm->name[i], name[i]);
  RingEndWrite(&comm->version, odd);
}

// Place of a Coll or P2p in the order of its communicator.
static uint64_t NextIndex(uint32_t comm_index, const struct Call* call, int32_t rank, uint64_t now) {
  if (comm_index == RING_NONE) return 0;
  struct RingComm* comm = &g_tracer.ring.comms[comm_index];
  if (call->comm_id != 0 && RING_LOAD(comm->comm_id) == 0) IdentifyComm(comm, call, rank);
  RING_STORE(comm->last_call, now);
  return __atomic_fetch_add(&comm->operations, 1, __ATOMIC_RELAXED);
}

void* StartCall(int version, uint32_t type, void* context, const void* descr) {
  struct ThreadState* thread = CurrentThread();
  const uint64_t now = RingNow(&g_tracer.ring);
  const struct DescrHead* head = descr;
  struct Call decoded;
  uint32_t generation;
  const uint32_t index = AllocateCall(&generation);
  if (index == RING_NONE) return NULL;
  Decode(version, type, descr, &decoded);
  const uint32_t comm = CommOf(context);
  const int is_counted = type == kEventColl || type == kEventP2p;
  const uint64_t place = is_counted ? NextIndex(comm, &decoded, head->rank, now) : 0;
  struct RingCall* call = &g_tracer.ring.calls[index];
  const uint32_t odd = RingBeginWrite(&call->version);
  RING_STORE(call->state, RING_OPEN);
  RING_STORE(call->kind, type);
  RING_STORE(call->comm, comm);
  RING_STORE(call->rank, head->rank);
  RING_STORE(call->index, place);
  RING_STORE(call->sequence, decoded.sequence);
  RING_STORE(call->count, decoded.count);
  RING_STORE(call->peer, decoded.peer);
  RING_STORE(call->func, decoded.func_name);
  RING_STORE(call->datatype, decoded.datatype_name);
  RING_STORE(call->algo, decoded.algo_name);
  RING_STORE(call->proto, decoded.proto_name);
  RING_STORE(call->channels, decoded.channels);
  RING_STORE(call->flags, decoded.flags);
  RING_STORE(call->start, now);
  RING_STORE(call->last, now);
  RING_STORE(call->last_state, 0xffffu);
  RING_STORE(call->open_proxies, 0);
  RING_STORE(call->parent, (uint64_t)(uintptr_t)head->parent);
  RING_STORE(call->proxies, 0);
  RING_STORE(call->thread, thread->thread);
  RingEndWrite(&call->version, odd);
  Account(thread, now);
  return (void*)(uintptr_t)RingHandle(&g_tracer.ring, RING_HANDLE_CALL, generation, index);
}

struct RingCall* CallOf(uint64_t handle) {
  const uint32_t index = HandleIndex(handle);
  if (!IsHandle(handle, RING_HANDLE_CALL) || index >= g_tracer.ring.calls_capacity) return NULL;
  struct RingCall* call = &g_tracer.ring.calls[index];
  return (RING_LOAD(call->generation) & 0xfffff) == HandleGeneration(handle) ? call : NULL;
}

void StopCall(uint64_t handle) {
  struct RingCall* call = CallOf(handle);
  // NCCL keeps some of these handles and stops them again.
  if (call == NULL || RING_LOAD(call->state) != RING_OPEN) {
    RingCountDrop(&g_tracer.ring, RING_DROP_STALE_HANDLE);
    return;
  }
  struct ThreadState* thread = CurrentThread();
  const uint64_t now = RingNow(&g_tracer.ring);
  const uint32_t odd = RingBeginWrite(&call->version);
  RING_STORE(call->last, now);
  RING_STORE(call->state, RING_STOPPED);
  RingEndWrite(&call->version, odd);
  if (thread->writer.entry == NULL) {
    RingCountDrop(&g_tracer.ring, RING_DROP_RECORD);
  } else {
    // A copy: the counters of proxy operations move meanwhile.
    const struct RingCall copy = {.kind = call->kind,
                                  .comm = call->comm,
                                  .rank = call->rank,
                                  .index = call->index,
                                  .sequence = call->sequence,
                                  .count = call->count,
                                  .peer = call->peer,
                                  .func = call->func,
                                  .datatype = call->datatype,
                                  .algo = call->algo,
                                  .proto = call->proto,
                                  .channels = call->channels,
                                  .flags = call->flags,
                                  .start = call->start,
                                  .last = now,
                                  .last_state = call->last_state,
                                  .open_proxies = RING_LOAD(call->open_proxies),
                                  .parent = call->parent,
                                  .proxies = RING_LOAD(call->proxies),
                                  .thread = call->thread};
    RingPush(&thread->writer, RING_RECORD_CALL, &copy.kind);
  }
  Account(thread, now);
}

void RecordCall(uint64_t handle, int state) {
  struct RingCall* call = CallOf(handle);
  if (call == NULL) {
    RingCountDrop(&g_tracer.ring, RING_DROP_STALE_HANDLE);
    return;
  }
  const uint32_t odd = RingBeginWrite(&call->version);
  RING_STORE(call->last_state, (uint32_t)state);
  RING_STORE(call->last, RingNow(&g_tracer.ring));
  RingEndWrite(&call->version, odd);
}

static struct Kernel* KernelOf(uint64_t handle) {
  if (HandleIndex(handle) >= kKernels) return NULL;
  struct Kernel* kernel = &g_tracer.kernels[HandleIndex(handle)];
  const int is_same = (RING_LOAD(kernel->generation) & 0xfffff) == HandleGeneration(handle);
  return is_same && RING_LOAD(kernel->is_open) ? kernel : NULL;
}

void* StartKernel(int version, void* context, const struct DescrKernelCh* descr) {
  for (int probe = 0; probe < kProbes; probe++) {
    const uint32_t index = __atomic_fetch_add(&g_tracer.next_kernel, 1, __ATOMIC_RELAXED) % kKernels;
    struct Kernel* kernel = &g_tracer.kernels[index];
    uint32_t closed = 0;
    if (!__atomic_compare_exchange_n(&kernel->is_open, &closed, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) continue;
    const uint32_t generation = RING_LOAD(kernel->generation) + 1;
    kernel->record = (struct RingKernelRecord){.comm = CommOf(context),
                                               .channel = descr->channel,
                                               .start = RingNow(&g_tracer.ring),
                                               .gpu_start = version >= 4 ? descr->timer : 0,
                                               .call = (uint64_t)(uintptr_t)descr->head.parent};
    RING_STORE(kernel->generation, generation);
    return (void*)(uintptr_t)RingHandle(&g_tracer.ring, RING_HANDLE_KERNEL, generation, index);
  }
  RingCountDrop(&g_tracer.ring, RING_DROP_CALL);
  return NULL;
}

void RecordKernel(uint64_t handle, int state, const struct StateArgs* args) {
  struct Kernel* kernel = KernelOf(handle);
  if (kernel == NULL || state != kStateKernelChStop || args == NULL) {
    RingCountDrop(&g_tracer.ring, kernel == NULL ? RING_DROP_STALE_HANDLE : RING_DROP_BAD_STATE);
    return;
  }
  kernel->record.gpu_stop = args->gpu_time;
}

void StopKernel(uint64_t handle) {
  struct Kernel* kernel = KernelOf(handle);
  if (kernel == NULL) {
    RingCountDrop(&g_tracer.ring, RING_DROP_STALE_HANDLE);
    return;
  }
  struct ThreadState* thread = CurrentThread();
  kernel->record.stop = RingNow(&g_tracer.ring);
  if (thread->writer.entry == NULL) {
    RingCountDrop(&g_tracer.ring, RING_DROP_RECORD);
  } else {
    RingPush(&thread->writer, RING_RECORD_KERNEL, &kernel->record.comm);
  }
  __atomic_store_n(&kernel->is_open, 0, __ATOMIC_RELEASE);
}
