// The profiler plugin interfaces v1 to v6 of NCCL, as far as we read them, for x86-64 and aarch64.
//
// Written from the layout facts alone, every offset asserted; NCCL's headers are not needed to build. A descriptor is
// never read past the size of its version. Used by the plugin and by the harness that plays NCCL (tests/tracer).
#pragma once

// NOLINTBEGIN(modernize-deprecated-headers): C reads this file, too.
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
// NOLINTEND(modernize-deprecated-headers)

enum ProfilerEvent {
  kEventGroup = 1,
  kEventColl = 2,
  kEventP2p = 4,
  kEventProxyOp = 8,
  kEventProxyStep = 16,
  kEventProxyCtrl = 32,
  kEventKernelCh = 64,
  kEventNetPlugin = 128,
  kEventGroupApi = 256,
  kEventCollApi = 512,
  kEventP2pApi = 1024,
  kEventKernelLaunch = 2048,
  kEventCeColl = 4096,
  kEventCeSync = 8192,
  kEventCeBatch = 16384,
};

enum ProfilerState {
  kStateOpSendPosted = 0,
  kStateOpSendRemFifoWait = 1,
  kStateOpSendTransmitted = 2,
  kStateOpSendDone = 3,
  kStateOpRecvPosted = 4,
  kStateOpRecvReceived = 5,
  kStateOpRecvTransmitted = 6,
  kStateOpRecvDone = 7,
  kStateStepSendGpuWait = 8,
  kStateStepSendWait = 9,
  kStateStepRecvWait = 10,
  kStateStepRecvFlushWait = 11,
  kStateStepRecvGpuWait = 12,
  kStateOpInProgress = 19,
  kStateStepSendPeerWait = 20,
  kStateKernelChStop = 22,
  kStateGroupStartApiStop = 23,
  kStateGroupEndApiStart = 24,
};

// The first 24 bytes are the same in all versions, but for the width of the type: one byte with seven bytes of padding
// behind it in v1 to v4, eight bytes from v5 on.
struct DescrHead {
  union {
    uint8_t type_byte;
    uint64_t type_word;
  };
  void* parent;
  int32_t rank;
};

struct DescrProxyOp {
  struct DescrHead head;
  int32_t pid;
  uint8_t channel;
  int32_t peer, steps, chunk_bytes, is_send;
};
struct DescrProxyStep {
  struct DescrHead head;
  int32_t step;
};
struct DescrKernelCh {
  struct DescrHead head;
  uint8_t channel;
  uint64_t timer;  // v4 and later
};

struct DescrCollV1 {
  struct DescrHead head;
  const char* name;
  uint64_t comm_hash, sequence;
  uint8_t func;
  const void* send;
  void* recv;
  size_t count;
  int32_t root;
  uint8_t datatype;
  uint32_t op;
  size_t traffic_bytes;
  uint8_t channels, warps, algo, proto;
  int32_t is_collnet, is_nvls;
};
struct DescrCollV2 {
  struct DescrHead head;
  const char* name;
  uint64_t comm_hash, sequence;
  const char* func;
  const void* send;
  void* recv;
  size_t count;
  int32_t root;
  const char* datatype;
  size_t traffic_bytes;
  uint8_t channels, warps;
  const char *algo, *proto;
};
struct DescrCollV3 {
  struct DescrHead head;
  const char* name;
  uint64_t comm_hash, sequence;
  const char* func;
  const void* send;
  void* recv;
  size_t count;
  int32_t root;
  const char* datatype;
  uint8_t channels, warps;
  const char *algo, *proto;
};
struct DescrCollV4 {
  struct DescrHead head;
  uint64_t sequence;
  const char* func;
  const void* send;
  void* recv;
  size_t count;
  int32_t root;
  const char* datatype;
  uint8_t channels, warps;
  const char *algo, *proto;
};
struct DescrCollV5 {
  struct DescrCollV4 coll;
  void* parent_group;
};

struct DescrP2pV1 {
  struct DescrHead head;
  const char* name;
  uint64_t comm_hash;
  uint8_t func;
  void* buffer;
  uint8_t datatype;
  size_t count;
  int32_t peer;
};
struct DescrP2pV2 {
  struct DescrHead head;
  const char* name;
  uint64_t comm_hash;
  const char* func;
  void* buffer;
  const char* datatype;
  size_t count;
  int32_t peer;
};
struct DescrP2pV4 {
  struct DescrHead head;
  const char* func;
  void* buffer;
  const char* datatype;
  size_t count;
  int32_t peer;
  uint8_t channels;
};
struct DescrP2pV5 {
  struct DescrP2pV4 p2p;
  void* parent_group;
};

struct DescrCollApi {
  struct DescrHead head;
  const char* func;
  size_t count;
  const char* datatype;
  int32_t root;
  void* stream;
  uint8_t is_captured;
};
struct DescrP2pApi {
  struct DescrHead head;
  const char* func;
  size_t count;
  const char* datatype;
  void* stream;
  uint8_t is_captured;
};
struct DescrGroupApi {
  struct DescrHead head;
  uint8_t is_captured;
  int32_t depth;
};
struct DescrCeColl {
  struct DescrHead head;
  uint64_t sequence;
  const char* func;
  const void* send;
  void* recv;
  size_t count;
  int32_t root;
  const char* datatype;
};

enum { kDescrBytesV1 = 120, kDescrBytesV2 = 128, kDescrBytesV3 = 120, kDescrBytesV4 = 104, kDescrBytesV5 = 112 };

// Arguments of a state change. v1 to v3: transSize and steps, or appended operations; later one word.
struct StateArgs {
  union {
    uint64_t trans_bytes;
    uint64_t gpu_time;
    int32_t appended;
  };
  int32_t steps;  // v1 to v3 only
};

typedef void (*ProfilerLog)(int level, unsigned long flags, const char* where, int line, const char* format, ...);
typedef int (*ProfilerStart)(void* context, void** handle, void* descr);
typedef int (*ProfilerStop)(void* handle);
typedef int (*ProfilerRecord)(void* handle, int state, void* args);
typedef int (*ProfilerFinalize)(void* context);
typedef int (*ProfilerInitV1)(void** context, int* mask);
typedef int (*ProfilerInitV4)(void** context, int* mask, const char* name, uint64_t comm_hash, int nodes, int ranks,
                              int rank, ProfilerLog log);
typedef int (*ProfilerInitV5)(void** context, uint64_t comm_id, int* mask, const char* name, int nodes, int ranks,
                              int rank, ProfilerLog log);

// Six words, the same order in every version; `init` is one of the three above.
struct ProfilerTable {
  const char* name;
  void (*init)(void);
  ProfilerStart start;
  ProfilerStop stop;
  ProfilerRecord record;
  ProfilerFinalize finalize;
};

#define ABI_AT(type, field, offset) static_assert(offsetof(struct type, field) == (offset), #type "." #field)
ABI_AT(DescrHead, parent, 8);
ABI_AT(DescrHead, rank, 16);
ABI_AT(DescrProxyOp, pid, 24);
ABI_AT(DescrProxyOp, channel, 28);
ABI_AT(DescrProxyOp, is_send, 44);
ABI_AT(DescrProxyStep, step, 24);
ABI_AT(DescrKernelCh, timer, 32);
ABI_AT(DescrCollV1, func, 48);
ABI_AT(DescrCollV1, datatype, 84);
ABI_AT(DescrCollV1, traffic_bytes, 96);
ABI_AT(DescrCollV1, channels, 104);
ABI_AT(DescrCollV1, is_nvls, 112);
ABI_AT(DescrCollV2, datatype, 88);
ABI_AT(DescrCollV2, channels, 104);
ABI_AT(DescrCollV2, proto, 120);
ABI_AT(DescrCollV3, channels, 96);
ABI_AT(DescrCollV3, proto, 112);
ABI_AT(DescrCollV4, sequence, 24);
ABI_AT(DescrCollV4, root, 64);
ABI_AT(DescrCollV4, channels, 80);
ABI_AT(DescrCollV4, proto, 96);
ABI_AT(DescrCollV5, parent_group, 104);
ABI_AT(DescrP2pV1, datatype, 56);
ABI_AT(DescrP2pV1, peer, 72);
ABI_AT(DescrP2pV2, func, 40);
ABI_AT(DescrP2pV2, peer, 72);
ABI_AT(DescrP2pV4, func, 24);
ABI_AT(DescrP2pV4, channels, 60);
ABI_AT(DescrP2pV5, parent_group, 64);
ABI_AT(DescrCollApi, root, 48);
ABI_AT(DescrCollApi, is_captured, 64);
ABI_AT(DescrP2pApi, is_captured, 56);
ABI_AT(DescrGroupApi, depth, 28);
ABI_AT(DescrCeColl, datatype, 72);
static_assert(sizeof(struct DescrCollV1) == kDescrBytesV1 && sizeof(struct DescrCollV2) == kDescrBytesV2, "v1, v2");
static_assert(sizeof(struct DescrCollV3) == kDescrBytesV3 && sizeof(struct DescrCollV4) == kDescrBytesV4, "v3, v4");
static_assert(sizeof(struct DescrCollV5) == kDescrBytesV5 && sizeof(struct StateArgs) == 16, "v5 and v6, arguments");
static_assert(sizeof(struct ProfilerTable) == 48, "six words");
#undef ABI_AT
