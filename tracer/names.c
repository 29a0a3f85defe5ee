// Texts of NCCL (functions, types, algorithms) as small numbers: its strings go when it is unloaded, and readers are in
// other processes. A pointer that was seen before costs one load; a new one is checked for being readable first, since
// versions of RCCL left such fields unset.
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/tracer.h"

enum { kSlots = 256, kProbes = 4, kPointerBits = 48 };

// Pointer and index in one word, so that two threads never see halves of each other's.
static uint64_t g_seen[kSlots];

// The slot that knows `text`; else a free one near its place, else that place. These texts lie side by side, so their
// addresses differ in the low bits alone.
static uint64_t* SlotOf(const char* text) {
  const uint64_t place = ((uint64_t)(uintptr_t)text * 0x9e3779b97f4a7c15ull) >> 56;
  uint64_t* free_slot = NULL;
  for (uint64_t i = 0; i < kProbes; i++) {
    uint64_t* slot = &g_seen[(place + i) % kSlots];
    const uint64_t seen = RING_LOAD(*slot);
    if (seen >> 16 == (uintptr_t)text) return slot;
    if (seen == 0 && free_slot == NULL) free_slot = slot;
  }
  return free_slot != NULL ? free_slot : &g_seen[place];
}

void ForgetNames(void) {
  for (int i = 0; i < kSlots; i++) RING_STORE(g_seen[i], 0);
}

// Asks the kernel to read eight bytes for a request that it then refuses: EFAULT when they are not there, EINVAL when
// they are.
static int IsReadable(uintptr_t aligned) {
  const int saved = errno;
  const long result = syscall(SYS_rt_sigprocmask, ~0L, aligned, NULL, 8L);
  const int is_readable = !(result == -1 && errno == EFAULT);
  errno = saved;
  return is_readable;
}

__attribute__((no_sanitize("address"))) int CopyText(char* to, size_t size, const char* from) {
  to[0] = 0;
  if (from == NULL) return 0;
  uintptr_t checked = 0;
  for (size_t i = 0; i + 1 < size; i++) {
    const uintptr_t word = ((uintptr_t)from + i) & ~(uintptr_t)7;
    if (word != checked && !IsReadable(word)) {
      to[0] = 0;
      return 0;
    }
    checked = word;
    to[i] = from[i];
    to[i + 1] = 0;
    if (from[i] == 0) return 1;
  }
  return 1;
}

uint16_t NameOfConstant(const char* text) {
  const uint32_t used = RING_LOAD(g_tracer.ring.header->names_used);
  const uint32_t limit = used < g_tracer.ring.names_capacity ? used : g_tracer.ring.names_capacity;
  for (uint32_t i = 1; i < limit; i++) {
    struct RingName* name = &g_tracer.ring.names[i];
    if (__atomic_load_n(&name->ready, __ATOMIC_ACQUIRE) != 1) continue;
    size_t k = 0;
    while (k < sizeof name->text && RING_LOAD(name->text[k]) == text[k] && text[k] != 0) k++;
    if (k < sizeof name->text && RING_LOAD(name->text[k]) == text[k]) return (uint16_t)i;
  }
  return (uint16_t)RingAddName(&g_tracer.ring, text);
}

uint16_t NameOf(const char* text) {
  if (text == NULL) return 0;
  uint64_t* slot = SlotOf(text);
  const uint64_t seen = RING_LOAD(*slot);
  if (seen != 0 && seen >> 16 == (uintptr_t)text) return (uint16_t)seen;
  char copy[sizeof((struct RingName*)0)->text];
  const uint16_t index = CopyText(copy, sizeof copy, text) ? NameOfConstant(copy) : NameOfConstant("?");
  if ((uintptr_t)text >> kPointerBits == 0) RING_STORE(*slot, (uint64_t)(uintptr_t)text << 16 | index);
  return index;
}
