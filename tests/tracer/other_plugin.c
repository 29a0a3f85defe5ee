// A profiler plugin that counts, and says when it is given a handle that is not its own. Its start of an event hands
// out addresses of its own array, as most plugins do.
#include <stdint.h>
#include <string.h>

#include "tracer/profiler_abi.h"

enum { kEvents = 100000 };

struct OtherEvent {
  uint64_t type, parent_is_ours, is_open, records;
};

struct OtherCounts {
  uint64_t inits, starts, stops, records, foreign, finalizes;
};

__attribute__((visibility("default"))) struct OtherCounts other_counts;
__attribute__((visibility("default"))) struct OtherEvent other_events[kEvents];
__attribute__((visibility("default"))) int other_mask = 0x1f;

static int IsOurs(const void* pointer) {
  return (const char*)pointer >= (const char*)other_events &&
         (const char*)pointer < (const char*)(other_events + kEvents);
}

static int Init(void** context, uint64_t comm_id, int* mask, const char* name, int nodes, int ranks, int rank,
                ProfilerLog log) {
  (void)comm_id, (void)name, (void)nodes, (void)ranks, (void)rank, (void)log;
  other_counts.inits++;
  *context = &other_counts;
  *mask = other_mask;
  return 0;
}

static int Start(void* context, void** handle, void* descr) {
  const struct DescrHead* head = descr;
  if (context != &other_counts || (head->parent != NULL && !IsOurs(head->parent))) other_counts.foreign++;
  struct OtherEvent* event = &other_events[other_counts.starts++ % kEvents];
  *event = (struct OtherEvent){head->type_word, IsOurs(head->parent), 1, 0};
  *handle = event;
  return 0;
}

static int Stop(void* handle) {
  other_counts.stops++;
  if (!IsOurs(handle) || !((struct OtherEvent*)handle)->is_open) other_counts.foreign++;
  if (IsOurs(handle)) ((struct OtherEvent*)handle)->is_open = 0;
  return 0;
}

static int Record(void* handle, int state, void* args) {
  (void)state, (void)args;
  other_counts.records++;
  if (IsOurs(handle)) {
    ((struct OtherEvent*)handle)->records++;
  } else {
    other_counts.foreign++;
  }
  return 0;
}

static int Finalize(void* context) {
  if (context == &other_counts) other_counts.finalizes++;
  return 0;
}

__attribute__((visibility("default")))
const struct ProfilerTable ncclProfiler_v5 = {"other", (void (*)(void))Init, Start, Stop, Record, Finalize};
