#include "lib/ring/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace paceline::ring {

namespace {

constexpr int kTornRetries = 8;

bool ReadFully(int fd, uint64_t offset, void* to, size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t count = ::pread(fd, at, bytes, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    offset += static_cast<uint64_t>(count);
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

struct Section {
  uint64_t offset;
  uint64_t entries;
  uint64_t entry_bytes;
  uint64_t wanted_bytes;
  uint64_t limit;
};

// Empty when the header describes a file that we can read safely.
const char* FindFault(const RingHeader& header, uint64_t file_bytes) {
  if (header.magic != RING_MAGIC) return "not a trace ring";
  if (header.version != RING_VERSION) return "a version that this reader does not know";
  if (header.header_bytes != RING_HEADER_BYTES) return "header of another size";
  if (header.file_bytes > file_bytes) return "cut short";
  if (header.clock != RING_CLOCK_TSC && header.clock != RING_CLOCK_MONOTONIC) return "unknown clock";
  const uint32_t records = header.records_per_writer;
  if (records == 0 || records > RING_MAX_RECORDS || (records & (records - 1)) != 0)
    return "record ring of a wrong size";
  const uint64_t all_records = uint64_t{records} * header.writers_capacity;
  const Section sections[] = {
      {header.names_offset, header.names_capacity, header.name_bytes, sizeof(RingName), RING_MAX_ENTRIES},
      {header.comms_offset, header.comms_capacity, header.comm_bytes, sizeof(RingComm), RING_MAX_ENTRIES},
      {header.calls_offset, header.calls_capacity, header.call_bytes, sizeof(RingCall), RING_MAX_ENTRIES},
      {header.proxies_offset, header.proxies_capacity, header.proxy_bytes, sizeof(RingProxy), RING_MAX_ENTRIES},
      {header.writers_offset, header.writers_capacity, header.writer_bytes, sizeof(RingWriterEntry), RING_MAX_ENTRIES},
      {header.records_offset, all_records, header.record_bytes, sizeof(RingRecord), ~uint64_t{0}}};
  uint64_t end = RING_HEADER_BYTES;
  for (const Section& section : sections) {
    if (section.entry_bytes != section.wanted_bytes) return "entries of another size";
    if (section.entries == 0 || section.entries > section.limit) return "too many entries, or none";
    if (section.offset < end || section.offset % 4096 != 0 || section.offset > header.file_bytes) return "wrong offset";
    if (section.entries > (header.file_bytes - section.offset) / section.entry_bytes) return "table beyond the end";
    end = section.offset + section.entries * section.entry_bytes;
  }
  return nullptr;
}

// The texts of a foreign header end.
void EndTexts(RingHeader& header) {
  header.boot_id[sizeof header.boot_id - 1] = 0;
  header.run[sizeof header.run - 1] = 0;
  header.host[sizeof header.host - 1] = 0;
}

void Restrict(RingComm& comm, uint32_t) { comm.name[sizeof comm.name - 1] = 0; }
void Restrict(RingCall& call, uint32_t comms) {
  if (call.comm >= comms) call.comm = RING_NONE;
}
void Restrict(RingProxy& proxy, uint32_t comms) {
  if (proxy.comm >= comms) proxy.comm = RING_NONE;
}

}  // namespace

std::unique_ptr<RingReader> RingReader::Open(const std::string& path, std::string& error) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    error = "open " + path + ": " + std::strerror(errno);
    return nullptr;
  }
  struct stat status {};
  RingHeader header;
  const char* fault = nullptr;
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    fault = "not a regular file";
  } else if (!ReadFully(fd, 0, &header, sizeof header)) {
    fault = "not a trace ring";
  } else {
    fault = FindFault(header, static_cast<uint64_t>(status.st_size));
  }
  if (fault != nullptr) {
    ::close(fd);
    error = "trace ring " + path + ": " + fault;
    return nullptr;
  }
  EndTexts(header);
  return std::unique_ptr<RingReader>(new RingReader(fd, header));
}

RingReader::RingReader(int fd, const RingHeader& header)
    : fd_(fd), header_(header), cursors_(header.writers_capacity, 0), names_(header.names_capacity) {}

RingReader::~RingReader() { ::close(fd_); }

bool RingReader::ReadAt(uint64_t offset, void* to, size_t bytes) const { return ReadFully(fd_, offset, to, bytes); }

// Two copies of each part of the table, one after the other: an entry that is the same and even in both was whole when
// the second was made, since a change in between would have left another version. The few that moved are read again
// alone.
template <typename T>
bool RingReader::ReadTable(uint64_t offset, uint32_t used, std::vector<Entry<T>>& entries) const {
  entries.clear();
  // In blocks that stay in the processor's cache, and that need no fresh pages for each look.
  constexpr uint32_t kBlock = 256;
  std::vector<T> first(std::min(used, kBlock)), second(first.size());
  for (uint32_t begin = 0; begin < used; begin += kBlock) {
    const uint32_t count = std::min(kBlock, used - begin);
    const uint64_t block = offset + uint64_t{begin} * sizeof(T);
    if (!ReadAt(block, first.data(), count * sizeof(T))) return false;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (!ReadAt(block, second.data(), count * sizeof(T))) return false;
    for (uint32_t i = 0; i < count; i++) {
      const uint64_t place = block + uint64_t{i} * sizeof(T);
      bool is_whole = false;
      for (int attempt = 0;; attempt++) {
        is_whole = second[i].version % 2 == 0 && std::memcmp(&first[i], &second[i], sizeof(T)) == 0;
        if (is_whole || attempt == kTornRetries) break;
        first[i] = second[i];
        std::atomic_thread_fence(std::memory_order_acquire);
        if (!ReadAt(place, &second[i], sizeof(T))) return false;
      }
      if (second[i].state != RING_OPEN && second[i].state != RING_STOPPED) continue;
      Restrict(second[i], header_.comms_capacity);
      entries.push_back({begin + i, !is_whole, second[i]});
    }
  }
  return true;
}

bool RingReader::ReadTables(Tables& tables, std::string& error) {
  // The counters of use may be anything; the capacities are those that were checked.
  RingHeader now;
  bool ok = ReadAt(0, &now, sizeof now);
  if (ok) {
    tables.header = header_;
    std::memcpy(&tables.header.abi_version, &now.abi_version, sizeof(RingHeader) - offsetof(RingHeader, abi_version));
    ok = ReadTable(header_.comms_offset, std::min(now.comms_used, header_.comms_capacity), tables.comms) &&
         ReadTable(header_.calls_offset, std::min(now.calls_used, header_.calls_capacity), tables.calls) &&
         ReadTable(header_.proxies_offset, std::min(now.proxies_used, header_.proxies_capacity), tables.proxies);
  }
  if (!ok) error = "trace ring: cut short or unreadable";
  return ok;
}

bool RingReader::ReadWriter(uint32_t writer, size_t limit, Records& records) {
  const uint64_t capacity = header_.records_per_writer;
  const uint64_t head_offset = header_.writers_offset + uint64_t{writer} * sizeof(RingWriterEntry);
  const uint64_t ring_offset = header_.records_offset + writer * capacity * sizeof(RingRecord);
  uint64_t head = 0;
  if (!ReadAt(head_offset, &head, sizeof head)) return false;
  uint64_t& cursor = cursors_[writer];
  if (head < cursor) {  // no writer of ours goes back
    records.damaged++;
    cursor = head;
  }
  if (head - cursor > capacity) {
    records.lost += head - capacity - cursor;
    cursor = head - capacity;
  }
  const uint64_t count = std::min<uint64_t>(head - cursor, limit);
  if (count == 0) return true;
  std::vector<RingRecord> copies(count);
  std::atomic_thread_fence(std::memory_order_acquire);
  for (uint64_t done = 0; done < count;) {
    const uint64_t place = (cursor + done) % capacity;
    const uint64_t run = std::min(count - done, capacity - place);
    if (!ReadAt(ring_offset + place * sizeof(RingRecord), &copies[done], run * sizeof(RingRecord))) return false;
    done += run;
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!ReadAt(head_offset, &head, sizeof head)) return false;
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t index = cursor + i;
    if (index + capacity <= head) {  // the writer may have been in it while we copied
      records.lost++;
    } else if (copies[i].sequence != index + 1) {
      records.damaged++;
    } else {
      records.records.push_back(copies[i]);
    }
  }
  cursor += count;
  return true;
}

bool RingReader::ReadRecords(size_t limit, Records& records, std::string& error) {
  records = Records();
  uint32_t used = 0;
  bool ok = ReadAt(offsetof(RingHeader, writers_used), &used, sizeof used);
  used = std::min(used, header_.writers_capacity);
  for (uint32_t i = 0; ok && i < used; i++) ok = ReadWriter(i, limit - records.records.size(), records);
  if (!ok) error = "trace ring: cut short or unreadable";
  return ok;
}

std::string RingReader::Name(uint16_t index) {
  if (index == 0 || index >= names_.size()) return "";
  if (names_[index].empty()) {
    RingName name;
    if (!ReadAt(header_.names_offset + uint64_t{index} * sizeof name, &name, sizeof name) || name.ready != 1) return "";
    names_[index].assign(name.text, ::strnlen(name.text, sizeof name.text));
  }
  return names_[index];
}

pid_t RingReader::WriterPid() const {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  if (::fcntl(fd_, F_GETLK, &lock) != 0) return -1;
  return lock.l_type == F_UNLCK ? 0 : lock.l_pid;
}

bool RingReader::RequestMask(uint32_t mask) {
  uint32_t sequence = 0;
  if (!ReadAt(offsetof(RingHeader, mask_sequence), &sequence, sizeof sequence)) return false;
  sequence++;
  return ::pwrite(fd_, &mask, sizeof mask, offsetof(RingHeader, mask_wanted)) == sizeof mask &&
         ::pwrite(fd_, &sequence, sizeof sequence, offsetof(RingHeader, mask_sequence)) == sizeof sequence;
}

}  // namespace paceline::ring
