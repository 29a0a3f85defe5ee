// The symbols that NCCL looks for, one table per interface version. NCCL takes the newest that it knows, so each
// release is driven natively; the adapters inside NCCL would lose the identity of communicators.
#include "tracer/tracer.h"

#define EXPORT __attribute__((visibility("default")))
typedef void (*AnyInit)(void);

static int InitV4(void** context, int* mask, const char* name, uint64_t comm_hash, int nodes, int ranks, int rank,
                  ProfilerLog log) {
  const struct CommIdentity identity = {comm_hash, name, nodes, ranks, rank};
  return TracerInit(4, context, mask, &identity, log);
}

#define START(version, since)                                             \
  static int StartV##version(void* context, void** handle, void* descr) { \
    return TracerStartV##since(context, handle, descr, version);          \
  }
#define INIT_OLD(version)                                       \
  static int InitV##version(void** context, int* mask) {        \
    const struct CommIdentity identity = {.rank = -1};          \
    return TracerInit(version, context, mask, &identity, NULL); \
  }
#define INIT_NEW(version)                                                                                        \
  static int InitV##version(void** context, uint64_t comm_id, int* mask, const char* name, int nodes, int ranks, \
                            int rank, ProfilerLog log) {                                                         \
    const struct CommIdentity identity = {comm_id, name, nodes, ranks, rank};                                    \
    return TracerInit(version, context, mask, &identity, log);                                                   \
  }
#define TABLE(version)                                       \
  EXPORT const struct ProfilerTable ncclProfiler_v##version; \
  const struct ProfilerTable ncclProfiler_v##version = {     \
      "Paceline", (AnyInit)InitV##version, StartV##version, TracerStop, TracerRecord, TracerFinalize};

INIT_OLD(1)
INIT_OLD(2)
INIT_OLD(3)
INIT_NEW(5)
INIT_NEW(6)
START(1, 4)
START(2, 4)
START(3, 4)
START(4, 4)
START(5, 5)
START(6, 5)
TABLE(1)
TABLE(2)
TABLE(3)
TABLE(4)
TABLE(5)
TABLE(6)
