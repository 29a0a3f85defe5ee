#define _GNU_SOURCE
#include "lib/ring/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { kPage = 4096 };

static uint64_t ReadClock(clockid_t id) {
  struct timespec time;
  if (clock_gettime(id, &time) != 0) return 0;
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t RingNowSlow(void) { return ReadClock(CLOCK_MONOTONIC); }

// The TSC counts time only where the processor says that it runs at one rate in all power states.
static uint32_t ChooseClock(void) {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  if (__get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8)) != 0) return RING_CLOCK_TSC;
#endif
  return RING_CLOCK_MONOTONIC;
}

// At most `size - 1` bytes of a file, zero-terminated; empty when it cannot be read.
static void ReadText(const char* path, char* text, size_t size) {
  text[0] = 0;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t count = read(fd, text, size - 1);
  text[count > 0 ? count : 0] = 0;
  close(fd);
}

// Field 22 of /proc/self/stat. The name of the program, field 2, may hold anything but ends at the last parenthesis.
static uint64_t ProcessStart(void) {
  char text[1024];
  ReadText("/proc/self/stat", text, sizeof text);
  const char* at = strrchr(text, ')');
  if (at == NULL) return 0;
  int field = 2;
  while (*at != 0 && field < 22) field += *at++ == ' ';
  uint64_t value = 0;
  while (*at >= '0' && *at <= '9') value = value * 10 + (uint64_t)(*at++ - '0');
  return value;
}

void RingDefaultOptions(struct RingOptions* options, const char* folder) {
  *options = (struct RingOptions){.folder = folder,
                                  .world_rank = -1,
                                  .names = 256,
                                  .comms = 512,
                                  .calls = 4096,
                                  .proxies = 8192,
                                  .writers = 12,
                                  .records_per_writer = 8192};
}

static int InRange(uint32_t entries) { return entries > 0 && entries <= RING_MAX_ENTRIES; }

static uint64_t Place(uint64_t* end, uint64_t entries, uint64_t bytes) {
  const uint64_t offset = *end;
  *end = (offset + entries * bytes + kPage - 1) / kPage * kPage;
  return offset;
}

static void LayOut(struct RingHeader* header, const struct RingOptions* options) {
  uint64_t end = RING_HEADER_BYTES;
  header->version = RING_VERSION;
  header->header_bytes = RING_HEADER_BYTES;
  header->names_used = 1;  // the first is "none"
  header->names_capacity = options->names;
  header->comms_capacity = options->comms;
  header->calls_capacity = options->calls;
  header->proxies_capacity = options->proxies;
  header->writers_capacity = options->writers;
  header->records_per_writer = options->records_per_writer;
  header->name_bytes = sizeof(struct RingName);
  header->comm_bytes = sizeof(struct RingComm);
  header->call_bytes = sizeof(struct RingCall);
  header->proxy_bytes = sizeof(struct RingProxy);
  header->writer_bytes = sizeof(struct RingWriterEntry);
  header->record_bytes = sizeof(struct RingRecord);
  header->names_offset = Place(&end, options->names, sizeof(struct RingName));
  header->comms_offset = Place(&end, options->comms, sizeof(struct RingComm));
  header->calls_offset = Place(&end, options->calls, sizeof(struct RingCall));
  header->proxies_offset = Place(&end, options->proxies, sizeof(struct RingProxy));
  header->writers_offset = Place(&end, options->writers, sizeof(struct RingWriterEntry));
  header->records_offset =
      Place(&end, (uint64_t)options->writers * options->records_per_writer, sizeof(struct RingRecord));
  header->file_bytes = end;
}

static void Identify(struct RingHeader* header, const struct RingOptions* options) {
  header->pid = (uint32_t)getpid();
  header->clock = ChooseClock();
  header->process_start = ProcessStart();
  header->epoch_monotonic_ns = ReadClock(CLOCK_MONOTONIC);
  header->epoch_realtime_ns = ReadClock(CLOCK_REALTIME);
  ReadText("/proc/sys/kernel/random/boot_id", header->boot_id, sizeof header->boot_id);
  header->boot_id[strcspn(header->boot_id, "\n")] = 0;
  header->world_rank = options->world_rank;
  // Not a secret: it only makes a handle of another process unlikely to look like one of ours.
  const uint64_t mixed =
      (header->epoch_realtime_ns ^ (uint64_t)header->pid << 20 ^ (uint64_t)(uintptr_t)header) * 0x9e3779b97f4a7c15ull;
  header->salt = (uint32_t)(mixed >> 48);
  if (options->run != NULL) snprintf(header->run, sizeof header->run, "%s", options->run);
  if (gethostname(header->host, sizeof header->host - 1) != 0) header->host[0] = 0;
}

static void TakePointers(struct Ring* ring, char* base, const struct RingHeader* header) {
  ring->header = (struct RingHeader*)base;
  ring->names = (struct RingName*)(base + header->names_offset);
  ring->comms = (struct RingComm*)(base + header->comms_offset);
  ring->calls = (struct RingCall*)(base + header->calls_offset);
  ring->proxies = (struct RingProxy*)(base + header->proxies_offset);
  ring->writers = (struct RingWriterEntry*)(base + header->writers_offset);
  ring->records = (struct RingRecord*)(base + header->records_offset);
  ring->names_capacity = header->names_capacity;
  ring->comms_capacity = header->comms_capacity;
  ring->calls_capacity = header->calls_capacity;
  ring->proxies_capacity = header->proxies_capacity;
  ring->writers_capacity = header->writers_capacity;
  ring->records_per_writer = header->records_per_writer;
  ring->clock = header->clock;
  ring->salt = header->salt;
  ring->pid = (pid_t)header->pid;
}

static int MapFile(struct Ring* ring, int fd, const struct RingHeader* header) {
  const struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
  int error = posix_fallocate(fd, 0, (off_t)header->file_bytes);
  if (error != 0) return error;
  if (fcntl(fd, F_SETLK, &lock) != 0) return errno;
  // Populated now: a page fault in a callback would cost what a thousand callbacks do.
  char* base = mmap(NULL, header->file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (base == MAP_FAILED) return errno;
  TakePointers(ring, base, header);
  ring->fd = fd;
  ring->mapped_bytes = header->file_bytes;
  memcpy(base, header, sizeof *header);
  ring->header->epoch_time = RingNow(ring);
  ring->header->epoch_monotonic_ns = ReadClock(CLOCK_MONOTONIC);
  __atomic_store_n(&ring->header->magic, RING_MAGIC, __ATOMIC_RELEASE);
  return 0;
}

int RingCreate(struct Ring* ring, const struct RingOptions* options) {
  const uint32_t records = options->records_per_writer;
  if (!InRange(options->names) || !InRange(options->comms) || !InRange(options->calls) || !InRange(options->proxies) ||
      !InRange(options->writers) || records == 0 || records > RING_MAX_RECORDS || (records & (records - 1)) != 0) {
    return EINVAL;
  }
  struct RingHeader header;
  memset(&header, 0, sizeof header);
  LayOut(&header, options);
  Identify(&header, options);
  char path[4096];
  const int length = snprintf(path, sizeof path, "%s/nccl-%u-%llu-%04x.ring", options->folder, header.pid,
                              (unsigned long long)header.process_start, header.salt);
  if (length < 0 || (size_t)length >= sizeof path) return ENAMETOOLONG;
  const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return errno;
  const int error = MapFile(ring, fd, &header);
  if (error != 0) {
    unlink(path);
    close(fd);
  }
  return error;
}

void RingClose(struct Ring* ring) {
  RING_STORE(ring->header->off_reason, RING_FINISHED);
  munmap(ring->header, ring->mapped_bytes);
  close(ring->fd);
  memset(ring, 0, sizeof *ring);
}

static int IsThreadAlive(const struct Ring* ring, uint32_t thread) {
  return syscall(SYS_tgkill, ring->pid, (pid_t)thread, 0) == 0 || errno != ESRCH;
}

int RingClaimWriter(struct Ring* ring, uint32_t thread, struct RingWriter* writer) {
  for (uint32_t i = 0; i < ring->writers_capacity; i++) {
    struct RingWriterEntry* entry = &ring->writers[i];
    uint32_t owner = RING_LOAD(entry->thread);
    if (owner != 0 && owner != thread && IsThreadAlive(ring, owner)) continue;
    // Acquire pairs with nothing alive: the former owner has ended, and its last stores were made before that.
    if (!__atomic_compare_exchange_n(&entry->thread, &owner, thread, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) continue;
    RING_STORE(entry->state, 1);
    uint32_t used = RING_LOAD(ring->header->writers_used);
    while (used <= i && !__atomic_compare_exchange_n(&ring->header->writers_used, &used, i + 1, 0, __ATOMIC_RELEASE,
                                                     __ATOMIC_RELAXED)) {
    }
    writer->entry = entry;
    writer->records = &ring->records[(size_t)i * ring->records_per_writer];
    writer->head = RING_LOAD(entry->head);
    writer->mask = ring->records_per_writer - 1;
    return 0;
  }
  return ENOSPC;
}

void RingPush(struct RingWriter* writer, uint32_t type, const void* body) {
  const uint64_t index = writer->head;
  uint64_t* to = (uint64_t*)&writer->records[index & writer->mask];
  uint64_t words[sizeof(struct RingRecord) / 8];
  words[0] = index + 1;
  memcpy(&words[1], &type, 4);
  memcpy((char*)&words[1] + 4, body, sizeof(struct RingRecord) - 12);
  // The head of the record before must be seen by whoever sees the first word of this one over an old record: pairs
  // with the reader's second look at the head.
  __atomic_thread_fence(__ATOMIC_RELEASE);
  for (size_t i = 0; i < sizeof words / 8; i++) RING_STORE(to[i], words[i]);
  writer->head = index + 1;
  __atomic_store_n(&writer->entry->head, index + 1, __ATOMIC_RELEASE);
}

uint32_t RingAddName(struct Ring* ring, const char* text) {
  const uint32_t index = __atomic_fetch_add(&ring->header->names_used, 1, __ATOMIC_RELAXED);
  if (index >= ring->names_capacity) {
    RING_STORE(ring->header->names_used, ring->names_capacity);
    RingCountDrop(ring, RING_DROP_NAME);
    return 0;
  }
  struct RingName* name = &ring->names[index];
  size_t i = 0;
  for (; i + 1 < sizeof name->text && text[i] != 0; i++) RING_STORE(name->text[i], text[i]);
  RING_STORE(name->text[i], 0);
  // Pairs with the reader, who looks at the text only when this is set.
  __atomic_store_n(&name->ready, 1, __ATOMIC_RELEASE);
  return index;
}
