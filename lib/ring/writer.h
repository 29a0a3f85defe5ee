// Writer's side of a trace ring (docs/formats/trace-ring.md), in C and without any library but libc.
//
// Used by the NCCL plugin inside other people's processes: RingCreate is the only call that allocates or makes system
// calls; everything after it is loads and stores on the mapping, never waits, and needs no reader. Shared words are
// written through atomics. Thread-safety: each entry has one writing thread at a time, which the caller sees to;
// RingClaimWriter may be called by any thread.
#pragma once

#include <stdint.h>  // NOLINT(modernize-deprecated-headers): for C as well
#include <sys/types.h>

#include "lib/ring/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RING_LOAD(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define RING_STORE(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELAXED)
// For words with one writing thread, which no other thread of this process reads: one plain instruction. The reader has
// the kernel copy the word, whole since it is aligned.
#define RING_ADD(place, value) ((void)((place) += (value)))

struct RingOptions {
  const char* folder;
  const char* run;                                 // TrainingRun, or NULL
  int32_t world_rank;                              // -1: unknown
  uint32_t names, comms, calls, proxies, writers;  // entries of each table, at most RING_MAX_ENTRIES
  uint32_t records_per_writer;                     // power of two, at most RING_MAX_RECORDS
};

// The mapping, and copies of what a reader with write access could change under our feet.
struct Ring {
  struct RingHeader* header;
  struct RingName* names;
  struct RingComm* comms;
  struct RingCall* calls;
  struct RingProxy* proxies;
  struct RingWriterEntry* writers;
  struct RingRecord* records;
  uint32_t names_capacity, comms_capacity, calls_capacity, proxies_capacity, writers_capacity;
  uint32_t records_per_writer;
  uint32_t clock;
  uint32_t salt;
  int fd;  // stays open: it carries the lock that says that we live
  pid_t pid;
  uint64_t mapped_bytes;
};

// One thread's ring of records. `entry` and `records` are NULL for a thread that found no free one.
struct RingWriter {
  struct RingWriterEntry* entry;
  struct RingRecord* records;
  uint64_t head;
  uint32_t mask;
};

// Defaults for one GPU process: 13 MiB.
void RingDefaultOptions(struct RingOptions* options, const char* folder);

// Creates the file with all its blocks, maps and locks it. Returns 0 or an errno: ENOSPC and EDQUOT when the folder has
// not that much room, EINVAL for capacities out of range. On failure no file stays behind.
int RingCreate(struct Ring* ring, const struct RingOptions* options);

// Marks the ring as finished, unmaps and closes. The file stays for its reader.
void RingClose(struct Ring* ring);

// Gives `thread` (a Linux thread id) a free writer, or one whose thread has ended. Returns 0, or ENOSPC when all belong
// to living threads. Makes system calls; once per thread.
int RingClaimWriter(struct Ring* ring, uint32_t thread, struct RingWriter* writer);

// Appends one record: `body` are the 116 bytes behind the type. Overwrites the oldest; never fails.
void RingPush(struct RingWriter* writer, uint32_t type, const void* body);

// Copies `text` (up to its zero byte, at most 59 bytes) into the name table. Returns its index, or 0 when full, which
// is counted.
uint32_t RingAddName(struct Ring* ring, const char* text);

// The ring's clock: ticks of the TSC, or nanoseconds where the TSC cannot be trusted.
uint64_t RingNowSlow(void);
static inline uint64_t RingNow(const struct Ring* ring) {
#if defined(__x86_64__)
  if (ring->clock == RING_CLOCK_TSC) return __builtin_ia32_rdtsc();
#else
  (void)ring;
#endif
  return RingNowSlow();
}

// Around every change of an entry: odd while it is changing. The fences order the version against the fields; they pair
// with the two reads of the version around the copy in RingReader.
static inline uint32_t RingBeginWrite(uint32_t* version) {
  const uint32_t odd = RING_LOAD(*version) | 1;
  RING_STORE(*version, odd);

  __atomic_thread_fence(__ATOMIC_RELEASE);
  return odd;
}
static inline void RingEndWrite(uint32_t* version, uint32_t odd) {
  __atomic_store_n(version, odd + 1, __ATOMIC_RELEASE);
}

// Counts something left out. Any thread.
static inline void RingCountDrop(struct Ring* ring, enum RingDrop drop) {
  __atomic_fetch_add(&ring->header->drops[drop], 1, __ATOMIC_RELAXED);
}

static inline uint64_t RingHandle(const struct Ring* ring, enum RingHandleKind kind, uint32_t generation,
                                  uint32_t index) {
  return (uint64_t)kind << 60 | (uint64_t)ring->salt << 44 | (uint64_t)(generation & 0xfffff) << 24 | index;
}

#ifdef __cplusplus
}
#endif
