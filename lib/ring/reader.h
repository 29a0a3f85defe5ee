// Reader's side of a trace ring (docs/formats/trace-ring.md): what the agent sees of a training process.
//
// The file belongs to a pod and is not trusted: it is read with pread and never mapped, since a mapping dies with
// SIGBUS when the pod cuts the file short; offsets, sizes and indexes are checked; memory is bounded by the limits of
// lib/ring/layout.h. Torn entries are read again and, when they stay torn, reported as such. Knows no clock and no log:
// lib/ring stands alone, so errors are texts here and become a Status in the agent. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/ring/layout.h"

namespace paceline::ring {

// An entry of a table with its place. Torn: its writer was killed, or did not stop changing it; fields may not fit each
// other.
template <typename T>
struct Entry {
  uint32_t index = 0;
  bool is_torn = false;
  T value{};
};

// One look at the tables. Only entries that are in use; comm indexes of calls and proxies are RING_NONE or below
// comms_capacity, every text ends.
struct Tables {
  RingHeader header{};
  std::vector<Entry<RingComm>> comms;
  std::vector<Entry<RingCall>> calls;
  std::vector<Entry<RingProxy>> proxies;
};

// Records in each writer's order. `lost`: overwritten before they were read. `damaged`: their sequence does not fit.
struct Records {
  std::vector<RingRecord> records;
  uint64_t lost = 0;
  uint64_t damaged = 0;
};

class RingReader {
 public:
  // Opens a ring. Null, with a sentence in `error`, when the file is missing, is no regular file, is not (yet) a ring
  // of a version that we know, or contradicts itself. Reads files only: does not block on a FIFO or device.
  static std::unique_ptr<RingReader> Open(const std::string& path, std::string& error);
  ~RingReader();
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;

  // The header as it was at Open; the counters in it are those of then.
  const RingHeader& header() const { return header_; }

  // One look at all tables. False, with `error`, when the file was cut short or cannot be read.
  bool ReadTables(Tables& tables, std::string& error);

  // Records since the last call, at most `limit` (more stay for the next call). False as above.
  bool ReadRecords(size_t limit, Records& records, std::string& error);

  // Text of a name index; "" for 0 and for what is not there (yet).
  std::string Name(uint16_t index);

  // Process id, in our PID namespace, of the living writer; 0 when it has ended (or is of a namespace that we cannot
  // see), -1 when this cannot be said. Do not call it, or close a reader, in the writer's own process: POSIX locks are
  // the process's, and closing any descriptor of the file drops them.
  pid_t WriterPid() const;

  // Asks the plugin to change the event types that it asks NCCL for. False when the file cannot be written.
  bool RequestMask(uint32_t mask);

 private:
  RingReader(int fd, const RingHeader& header);
  bool ReadAt(uint64_t offset, void* to, size_t bytes) const;
  template <typename T>
  bool ReadTable(uint64_t offset, uint32_t used, std::vector<Entry<T>>& entries) const;
  bool ReadWriter(uint32_t writer, size_t limit, Records& records);

  int fd_;
  RingHeader header_;
  std::vector<uint64_t> cursors_;  // per writer: next record to read
  std::vector<std::string> names_;
};

}  // namespace paceline::ring
