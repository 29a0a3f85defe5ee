// The bytes of a trace ring, docs/formats/trace-ring.md, as C structs with every offset asserted.
//
// Shared by the NCCL plugin, which maps the file and writes it (C, no library at all), and by the reader of the agent
// (C++). Plain data: the writer goes through atomics (lib/ring/writer.h), the reader only looks at copies.
#pragma once

// NOLINTBEGIN(modernize-deprecated-headers): for C as well
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
// NOLINTEND(modernize-deprecated-headers)

#define RING_MAGIC 0x3145434152544c50ull
#define RING_VERSION 1u
#define RING_NONE 0xffffffffu
#define RING_STEPS 8u

enum RingLimits {
  RING_MAX_ENTRIES = 65536,
  RING_MAX_RECORDS = 1048576,
  RING_HEADER_BYTES = 4096,
};

enum RingClock { RING_CLOCK_TSC = 1, RING_CLOCK_MONOTONIC = 2 };
enum RingState { RING_FREE = 0, RING_OPEN = 1, RING_STOPPED = 2 };
enum RingOffReason { RING_ON = 0, RING_STEPS_OFF = 1, RING_ALL_OFF = 2, RING_FINISHED = 3 };

enum RingDrop {
  RING_DROP_CALL,
  RING_DROP_PROXY,
  RING_DROP_RECORD,
  RING_DROP_STALE_HANDLE,
  RING_DROP_BAD_STATE,
  RING_DROP_LOST_STOP,
  RING_DROP_COMM,
  RING_DROP_NAME,
  RING_DROPS
};

enum RingRecordType { RING_RECORD_CALL = 1, RING_RECORD_PROXY = 2, RING_RECORD_KERNEL = 3 };

enum RingHandleKind {
  RING_HANDLE_COMM = 1,
  RING_HANDLE_CALL = 2,
  RING_HANDLE_PROXY = 3,
  RING_HANDLE_STEP = 4,
  RING_HANDLE_KERNEL = 5,
  RING_HANDLE_OTHER = 6
};

enum RingProxyFlags { RING_PROXY_FOREIGN = 1, RING_PROXY_IN_PROGRESS = 2, RING_PROXY_LOST_STOP = 4 };
enum RingStepState { RING_STEP_NONE = 0, RING_STEP_START = 0xfe, RING_STEP_STOP = 0xff };

struct RingHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t header_bytes;
  uint64_t file_bytes;
  uint64_t names_offset, comms_offset, calls_offset, proxies_offset, writers_offset, records_offset;
  uint32_t names_capacity, comms_capacity, calls_capacity, proxies_capacity, writers_capacity;
  uint32_t records_per_writer;
  uint32_t name_bytes, comm_bytes, call_bytes, proxy_bytes, writer_bytes, record_bytes;
  uint32_t pid;
  uint32_t clock;
  uint64_t process_start;
  uint64_t epoch_time, epoch_monotonic_ns, epoch_realtime_ns;
  char boot_id[40];
  int32_t world_rank;
  uint32_t salt;
  char run[64];
  char host[64];
  uint8_t unused_1[176];
  uint32_t abi_version;
  uint32_t mask;
  uint32_t off_reason;
  uint32_t names_used, comms_used, calls_used, proxies_used, writers_used;
  uint8_t unused_2[32];
  uint64_t drops[RING_DROPS];
  uint8_t unused_3[384];
  uint32_t mask_sequence;
  uint32_t mask_wanted;
  uint8_t unused_4[3064];
};

struct RingName {
  uint32_t ready;
  char text[60];
};

struct RingComm {
  uint32_t version;
  uint32_t generation;
  uint32_t state;
  int32_t rank, nranks, nnodes;
  uint64_t comm_id;
  uint64_t opened, closed;
  uint64_t operations;
  uint64_t last_call;
  char name[64];
};

struct RingCall {
  uint32_t version;
  uint32_t generation;
  uint32_t state;
  uint32_t kind;
  uint32_t comm;
  int32_t rank;
  uint64_t index;
  uint64_t sequence;
  uint64_t count;
  int32_t peer;
  uint16_t func, datatype, algo, proto;
  uint16_t channels;
  uint16_t flags;
  uint64_t start, last;
  uint32_t last_state;
  uint32_t open_proxies;
  uint64_t parent;
  uint32_t proxies;
  uint32_t thread;
  uint8_t unused[24];
};

struct RingStep {
  uint64_t time;
  uint32_t number;
  uint16_t state;
  uint16_t unused;
};

struct RingProxy {
  uint32_t version;
  uint32_t generation;
  uint32_t state;
  uint32_t comm;
  int32_t pid;
  int32_t rank, peer;
  uint16_t channel;
  uint8_t is_send;
  uint8_t flags;
  uint32_t steps, chunk_bytes;
  uint64_t call, context;
  uint64_t start;
  uint32_t started, posted, ready, moved, done;
  uint32_t last_state;
  uint64_t last;
  uint64_t bytes;
  uint64_t wait[3];
  struct RingStep step[RING_STEPS];
};

struct RingWriterEntry {
  uint64_t head;
  uint32_t thread;
  uint32_t state;
  uint64_t callbacks;
  uint64_t timed, timed_callbacks;
  uint64_t last;
  uint8_t unused[16];
};

struct RingRecord {
  uint64_t sequence;
  uint32_t type;
  uint8_t body[116];
};

// Body of a record of type 3, as a whole record.
struct RingKernelRecord {
  uint64_t sequence;
  uint32_t type;
  uint32_t comm;
  uint16_t channel;
  uint8_t unused_1[6];
  uint64_t start, stop;
  uint64_t gpu_start, gpu_stop;
  uint64_t call;
  uint8_t unused_2[64];
};

#define RING_AT(type, field, offset) static_assert(offsetof(struct type, field) == (offset), #type "." #field)
#define RING_SIZE(type, size) static_assert(sizeof(struct type) == (size), #type)
RING_SIZE(RingHeader, RING_HEADER_BYTES);
RING_AT(RingHeader, names_offset, 24);
RING_AT(RingHeader, names_capacity, 72);
RING_AT(RingHeader, records_per_writer, 92);
RING_AT(RingHeader, name_bytes, 96);
RING_AT(RingHeader, pid, 120);
RING_AT(RingHeader, process_start, 128);
RING_AT(RingHeader, epoch_time, 136);
RING_AT(RingHeader, boot_id, 160);
RING_AT(RingHeader, world_rank, 200);
RING_AT(RingHeader, run, 208);
RING_AT(RingHeader, host, 272);
RING_AT(RingHeader, abi_version, 512);
RING_AT(RingHeader, names_used, 524);
RING_AT(RingHeader, writers_used, 540);
RING_AT(RingHeader, drops, 576);
RING_AT(RingHeader, mask_sequence, 1024);
RING_SIZE(RingName, 64);
RING_SIZE(RingComm, 128);
RING_AT(RingComm, rank, 12);
RING_AT(RingComm, comm_id, 24);
RING_AT(RingComm, operations, 48);
RING_AT(RingComm, name, 64);
RING_SIZE(RingCall, 128);
RING_AT(RingCall, kind, 12);
RING_AT(RingCall, index, 24);
RING_AT(RingCall, count, 40);
RING_AT(RingCall, func, 52);
RING_AT(RingCall, flags, 62);
RING_AT(RingCall, start, 64);
RING_AT(RingCall, last_state, 80);
RING_AT(RingCall, parent, 88);
RING_AT(RingCall, proxies, 96);
RING_SIZE(RingStep, 16);
RING_SIZE(RingProxy, 256);
RING_AT(RingProxy, comm, 12);
RING_AT(RingProxy, pid, 16);
RING_AT(RingProxy, channel, 28);
RING_AT(RingProxy, steps, 32);
RING_AT(RingProxy, call, 40);
RING_AT(RingProxy, started, 64);
RING_AT(RingProxy, last_state, 84);
RING_AT(RingProxy, bytes, 96);
RING_AT(RingProxy, wait, 104);
RING_AT(RingProxy, step, 128);
RING_SIZE(RingWriterEntry, 64);
RING_AT(RingWriterEntry, callbacks, 16);
RING_AT(RingWriterEntry, last, 40);
RING_SIZE(RingRecord, 128);
RING_AT(RingRecord, type, 8);
RING_SIZE(RingKernelRecord, 128);
RING_AT(RingKernelRecord, comm, 12);
RING_AT(RingKernelRecord, start, 24);
RING_AT(RingKernelRecord, call, 56);
#undef RING_AT
#undef RING_SIZE
