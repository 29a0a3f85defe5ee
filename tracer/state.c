// Start and end of tracing in a process, communicators, the mask of event types and the budget of time.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/tracer.h"

enum {
  kTimedEvery = 256,
  kWindowNs = 250000000,
  kLongestSampleTicks = 20000,  // more is the scheduler's doing, not ours
  kLogWarn = 2,
};

struct Tracer g_tracer = {.tags = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u}};  // no handle matches
static pthread_mutex_t g_init_lock = PTHREAD_MUTEX_INITIALIZER;
static int g_was_tried;
static uint32_t g_open_comms;
// Not initial-exec: that fails to load where static TLS is used up. Read once per call event, never per step.
static __thread struct ThreadState* t_thread;
static __thread uint32_t t_thread_epoch;
static uint32_t g_epoch;  // goes up in a child of fork, whose threads start anew

void TracerLog(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (g_tracer.log != NULL) {
    g_tracer.log(kLogWarn, 1, "paceline", 0, "paceline: %s", text);
  } else {
    fprintf(stderr, "paceline: %s\n", text);
  }
}

struct ThreadState* CurrentThread(void) {
  if (t_thread != NULL && t_thread_epoch == g_epoch) return t_thread;
  struct ThreadState* thread = &g_tracer.threads[g_tracer.ring.writers_capacity];
  struct RingWriter writer;
  const uint32_t id = (uint32_t)syscall(SYS_gettid);
  if (RingClaimWriter(&g_tracer.ring, id, &writer) == 0) {
    thread = &g_tracer.threads[writer.entry - g_tracer.ring.writers];
    thread->writer = writer;
    thread->thread = id;
    thread->countdown = kTimedEvery;
    thread->window_start = 0;
  }
  t_thread = thread;
  t_thread_epoch = g_epoch;
  return thread;
}

static uint32_t AllowedMask(int version) {
  uint32_t allowed = kEventColl | kEventP2p | kEventProxyOp | kEventProxyStep;
  // Before 2.28.3 kernel events break all-to-all ("Proxy append out of bounds"); v5 begins there.
  if (version >= 5) allowed |= kEventGroupApi | kEventCollApi | kEventP2pApi | kEventKernelLaunch | kEventKernelCh;
  if (version >= 6) allowed |= kEventCeColl;
  return allowed;
}

void ApplyMask(void) {
  struct RingHeader* header = g_tracer.ring.header;
  uint32_t mask = g_tracer.wanted_mask & AllowedMask(g_tracer.version);
  const uint32_t reason = RING_LOAD(header->off_reason);
  if (reason == RING_STEPS_OFF) mask &= ~(uint32_t)kEventProxyStep;
  if (reason >= RING_ALL_OFF) mask = 0;
  RING_STORE(header->mask, mask);
  if (g_tracer.forward_mask != NULL) mask |= (uint32_t)RING_LOAD(*g_tracer.forward_mask);
  if (g_tracer.nccl_mask != NULL) RING_STORE(*g_tracer.nccl_mask, (int)mask);
}

void PollMask(void) {
  // Acquire pairs with the order of the agent's two writes: the mask is there before its sequence.
  const uint32_t sequence = __atomic_load_n(&g_tracer.ring.header->mask_sequence, __ATOMIC_ACQUIRE);
  if (sequence == RING_LOAD(g_tracer.seen_mask_sequence)) return;
  RING_STORE(g_tracer.seen_mask_sequence, sequence);
  RING_STORE(g_tracer.wanted_mask, RING_LOAD(g_tracer.ring.header->mask_wanted));
  ApplyMask();
}

static void SwitchDown(uint64_t permille) {
  struct RingHeader* header = g_tracer.ring.header;
  uint32_t reason = RING_LOAD(header->off_reason);
  if (reason >= RING_ALL_OFF) return;
  if (!__atomic_compare_exchange_n(&header->off_reason, &reason, reason + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    return;
  }
  ApplyMask();
  TracerLog("tracing took %llu permille of a thread's time, over its budget of %u: %s off",
            (unsigned long long)permille, g_tracer.budget_permille, reason == RING_ON ? "steps are" : "it is");
}

// Counts the callbacks since the last call, one of which took from `began` until now, and judges the window.
static void AccountWindow(struct ThreadState* thread, uint64_t began) {
  const uint64_t now = RingNow(&g_tracer.ring);
  const uint64_t sample = now - began < kLongestSampleTicks ? now - began : kLongestSampleTicks;
  RING_STORE(thread->countdown, kTimedEvery);
  if (thread->writer.entry == NULL) return;  // shared by several threads: no time of one of them
  RING_ADD(thread->writer.entry->callbacks, kTimedEvery);
  RING_ADD(thread->writer.entry->timed, sample);
  RING_ADD(thread->writer.entry->timed_callbacks, 1);
  RING_STORE(thread->writer.entry->last, now);
  const uint64_t now_ns = RingNowSlow();
  if (thread->window_start == 0) {
    thread->window_start = now;
    thread->window_start_ns = now_ns;
    thread->window_calls = thread->window_timed = thread->window_samples = 0;
    return;
  }
  thread->window_calls += kTimedEvery;
  thread->window_timed += sample;
  thread->window_samples++;
  if (now_ns - thread->window_start_ns < kWindowNs || now <= thread->window_start) return;
  const uint64_t spent = thread->window_timed / thread->window_samples * thread->window_calls;
  const uint64_t permille = spent * 1000 / (now - thread->window_start);
  const int is_over = g_tracer.budget_permille != 0 && permille > g_tracer.budget_permille;
  thread->over_budget_windows = is_over ? thread->over_budget_windows + 1 : 0;
  thread->window_start = 0;
  if (thread->over_budget_windows < 2) return;  // one window may be a burst
  thread->over_budget_windows = 0;
  SwitchDown(permille);
}

int AccountSlow(struct ThreadState* thread, uint64_t began) {
  AccountWindow(thread, began);
  return 0;
}

// A child of fork shares the mapping: it must not write there, and gets a ring of its own if it uses NCCL itself.
static void AfterForkInChild(void) {
  g_tracer.is_on = 0;
  g_tracer.quick_proxies = 0;
  memset(g_tracer.tags, 0xff, sizeof g_tracer.tags);
  g_forwards = 0;
  g_was_tried = 0;
  g_open_comms = 0;
  g_epoch++;
  g_init_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void* Allocate(size_t bytes) {
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static int MakeTables(void) {
  const size_t threads = g_tracer.ring.writers_capacity + 1;
  g_tracer.owners = Allocate(g_tracer.ring.proxies_capacity * sizeof(struct ProxyOwner));
  g_tracer.threads = Allocate(threads * sizeof(struct ThreadState));
  g_tracer.kernels = Allocate(kKernels * sizeof(struct Kernel));
  if (g_tracer.owners == NULL || g_tracer.threads == NULL || g_tracer.kernels == NULL) return ENOMEM;
  for (size_t i = 0; i < threads; i++) g_tracer.threads[i].countdown = kTimedEvery;
  for (uint64_t kind = 0; kind < 8; kind++) g_tracer.tags[kind] = (uint32_t)(kind << 16 | g_tracer.ring.salt);
  g_tracer.next_call = g_tracer.next_proxy = g_tracer.next_kernel = 0;
  g_tracer.seen_mask_sequence = 0;
  return 0;
}

// Once per process. Where it fails tracing is off, and one line says why.
static void StartTracing(int version) {
  static int has_fork_handler;
  struct TracerConfig config;
  ReadTracerConfig(&config);
  struct RingOptions options;
  RingDefaultOptions(&options, config.folder);
  options.run = config.run;
  options.world_rank = config.world_rank;
  options.records_per_writer = config.records_per_writer;
  g_tracer.ring.pid = getpid();
  int error = RingCreate(&g_tracer.ring, &options);
  if (error == 0) error = MakeTables();
  if (!has_fork_handler && pthread_atfork(NULL, NULL, AfterForkInChild) == 0) has_fork_handler = 1;
  if (error != 0) TracerLog("tracing is off: no ring in %s: %s", config.folder, strerror(error));
  g_tracer.version = version;
  g_tracer.budget_permille = config.budget_permille;
  g_tracer.wanted_mask = config.mask != 0 ? config.mask : AllowedMask(version) & ~(uint32_t)kEventKernelCh;
  if (error == 0) {
    RING_STORE(g_tracer.ring.header->abi_version, (uint32_t)version);
    __atomic_store_n(&g_tracer.is_on, 1, __ATOMIC_RELEASE);
  }
  if (config.forward != NULL) LoadForward(config.forward, version);
}

uint32_t CommOf(const void* context) {
  const uint64_t handle = (uint64_t)(uintptr_t)context;
  const uint32_t index = HandleIndex(handle);
  if (!IsHandle(handle, RING_HANDLE_COMM) || index >= g_tracer.ring.comms_capacity) return RING_NONE;
  return (RING_LOAD(g_tracer.ring.comms[index].generation) & 0xfffff) == HandleGeneration(handle) ? index : RING_NONE;
}

// A free entry, else the one that was closed first: its late stops are then stale handles.
static struct RingComm* FindComm(void) {
  struct RingComm* best = NULL;
  for (uint32_t i = 0; i < g_tracer.ring.comms_capacity; i++) {
    struct RingComm* comm = &g_tracer.ring.comms[i];
    if (comm->state == RING_FREE) return comm;
    if (comm->state == RING_STOPPED && (best == NULL || comm->closed < best->closed)) best = comm;
  }
  return best;
}

static void* OpenComm(const struct CommIdentity* identity) {
  struct RingComm* comm = FindComm();
  if (comm == NULL) {
    RingCountDrop(&g_tracer.ring, RING_DROP_COMM);
    return (void*)(uintptr_t)RingHandle(&g_tracer.ring, RING_HANDLE_OTHER, 0, 0);
  }
  const uint32_t index = (uint32_t)(comm - g_tracer.ring.comms);
  char name[sizeof comm->name];
  CopyText(name, sizeof name, identity->name);
  const uint32_t odd = RingBeginWrite(&comm->version);
  const uint32_t generation = RING_LOAD(comm->generation) + 1;
  RING_STORE(comm->generation, generation);
  RING_STORE(comm->state, RING_OPEN);
  RING_STORE(comm->rank, identity->rank);
  RING_STORE(comm->nranks, identity->ranks);
  RING_STORE(comm->nnodes, identity->nodes);
  RING_STORE(comm->comm_id, identity->id);
  RING_STORE(comm->opened, RingNow(&g_tracer.ring));
  RING_STORE(comm->closed, 0);
  RING_STORE(comm->operations, 0);
  RING_STORE(comm->last_call, 0);
  for (size_t i = 0; i < sizeof name; i++) RING_STORE(comm->name[i], name[i]);
  RingEndWrite(&comm->version, odd);
  if (RING_LOAD(g_tracer.ring.header->comms_used) <= index) RING_STORE(g_tracer.ring.header->comms_used, index + 1);
  return (void*)(uintptr_t)RingHandle(&g_tracer.ring, RING_HANDLE_COMM, generation, index);
}

int TracerInit(int version, void** context, int* mask, const struct CommIdentity* identity, ProfilerLog log) {
  if (context == NULL) return 0;
  *context = NULL;
  pthread_mutex_lock(&g_init_lock);
  if (log != NULL) g_tracer.log = log;
  if (!g_was_tried) {
    g_was_tried = 1;
    StartTracing(version);
  }
  g_tracer.nccl_mask = mask;
  if (g_tracer.is_on) {
    // The first communicator may be the first of another NCCL, whose texts lie where others lay before.
    if (g_open_comms++ == 0) ForgetNames();
    *context = OpenComm(identity);
  }
  ForwardInit(version, context, identity, log);
  if (g_tracer.is_on) {
    // The quick way reads the TSC and tells no other plugin.
    const int is_quick = g_tracer.ring.clock == RING_CLOCK_TSC && !g_forwards;
    RING_STORE(g_tracer.quick_proxies, is_quick ? g_tracer.ring.proxies_capacity : 0);
    ApplyMask();
  } else if (mask != NULL) {
    RING_STORE(*mask, g_tracer.forward_mask != NULL ? RING_LOAD(*g_tracer.forward_mask) : 0);
  }
  pthread_mutex_unlock(&g_init_lock);
  return 0;
}

// Marks only: with shared resources the proxy still stops steps of a communicator that is gone.
int TracerFinalize(void* context) {
  ForwardFinalize(context);
  if (!__atomic_load_n(&g_tracer.is_on, __ATOMIC_ACQUIRE)) return 0;
  pthread_mutex_lock(&g_init_lock);
  const uint32_t index = CommOf(context);
  if (index != RING_NONE && g_tracer.ring.comms[index].state == RING_OPEN) {
    struct RingComm* comm = &g_tracer.ring.comms[index];
    const uint32_t odd = RingBeginWrite(&comm->version);
    RING_STORE(comm->closed, RingNow(&g_tracer.ring));
    RING_STORE(comm->state, RING_STOPPED);
    RingEndWrite(&comm->version, odd);
    g_open_comms--;
  }
  pthread_mutex_unlock(&g_init_lock);
  return 0;
}
