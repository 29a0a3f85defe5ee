#include "agent/probe/disk_probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace paceline::agent {
namespace {

constexpr size_t kBlock = 1u << 20;        // of sequential reads
constexpr size_t kRandomBlock = 4u << 10;  // of random ones
constexpr uint64_t kFreeTimes = 10;        // as much must be free as the file takes, times this

// A buffer of one block, aligned as direct I/O wants it.
class Buffer {
 public:
  Buffer() : data_(mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Buffer() {
    if (is_valid()) munmap(data_, kBlock);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  bool is_valid() const { return data_ != MAP_FAILED; }
  char* data() const { return static_cast<char*>(data_); }

 private:
  void* const data_;
};

uint64_t NextRandom(uint64_t& state) {  // splitmix64
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// A file without a name, so that nothing is left whatever ends this process.
Result<UniqueFd> OpenScratch(const std::string& folder) {
  UniqueFd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd.is_valid()) return fd;
  if (errno != EOPNOTSUPP && errno != EISDIR) return ErrnoStatus(errno, folder);
  std::string path = folder + "/.probe-XXXXXX";
  fd.Reset(::mkostemp(path.data(), O_CLOEXEC));
  if (!fd.is_valid()) return ErrnoStatus(errno, path);
  ::unlink(path.c_str());
  return fd;
}

// Bytes written, whole blocks, at least one; each of its own contents, so that no disk stores them once.
Result<size_t> Fill(int fd, const Buffer& buffer, const DiskProbeOptions& options, const Clock& clock) {
  const TimePoint end = clock.Now() + options.write_limit;
  uint64_t random = 1;
  size_t written = 0;
  do {
    for (size_t i = 0; i < kBlock; i += sizeof random) {
      const uint64_t value = NextRandom(random);
      std::memcpy(buffer.data() + i, &value, sizeof value);
    }
    const ssize_t count = ::pwrite(fd, buffer.data(), kBlock, static_cast<off_t>(written));
    if (count < 0) return ErrnoStatus(errno, "write");
    if (static_cast<size_t>(count) != kBlock) return ResourceExhaustedError("write: cut short");
    written += kBlock;
    // In pieces, so that the time limit holds for what reaches the disk.
    if (written % (16 * kBlock) == 0 && ::fdatasync(fd) != 0) return ErrnoStatus(errno, "sync");
  } while (written + kBlock <= options.bytes && clock.Now() < end);
  if (::fdatasync(fd) != 0) return ErrnoStatus(errno, "sync");
  return written;
}

// True when reads go past the page cache from now on; else the cache is emptied of the file.
bool LeaveCache(int fd, const Buffer& buffer) {
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) return false;
  if (::pread(fd, buffer.data(), kRandomBlock, 0) == static_cast<ssize_t>(kRandomBlock)) return true;
  ::fcntl(fd, F_SETFL, flags);
  return false;
}

struct DiskRates {
  double megabytes_per_second = 0;
  double reads_per_second = 0;
  Status failure;
};

DiskRates ReadBack(int fd, const Buffer& buffer, size_t size, Duration length, const Clock& clock) {
  DiskRates rates;
  const auto read = [&](size_t count, size_t at) {
    if (::pread(fd, buffer.data(), count, static_cast<off_t>(at)) == static_cast<ssize_t>(count)) return true;
    if (rates.failure.ok()) rates.failure = ErrnoStatus(errno, "read");
    return false;
  };
  size_t at = 0;
  rates.megabytes_per_second = RatePerSecond(clock, length, [&] {
    if (at + kBlock > size) at = 0;
    const bool is_read = read(kBlock, at);
    at += kBlock;
    return is_read ? kBlock / 1e6 : 0.0;
  });
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  uint64_t random = 2;
  rates.reads_per_second = RatePerSecond(clock, length, [&] {
    return read(kRandomBlock, NextRandom(random) % (size / kRandomBlock) * kRandomBlock) ? 1.0 : 0.0;
  });
  return rates;
}

Result<Measurement> Measure(const DiskProbeOptions& options, const Clock& clock) {
  struct statvfs space {};
  if (::statvfs(options.folder.c_str(), &space) != 0) return ErrnoStatus(errno, options.folder);
  if (space.f_bavail * space.f_frsize < options.bytes * kFreeTimes) {
    return ResourceExhaustedError(
        fmt::format("{}: less than {} MiB are free", options.folder, options.bytes * kFreeTimes >> 20));
  }
  const Buffer buffer;
  if (!buffer.is_valid()) return ErrnoStatus(errno, "memory");
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenScratch(options.folder));
  ASSIGN_OR_RETURN(const size_t size, Fill(fd.get(), buffer, options, clock));
  const bool is_direct = LeaveCache(fd.get(), buffer);
  const DiskRates rates = ReadBack(fd.get(), buffer, size, options.read_length, clock);
  RETURN_IF_ERROR(rates.failure);
  const std::string detail = fmt::format("{} MiB in {}", size >> 20, options.folder);
  return Measurement{
      {FigureOf(is_direct ? "diskSequentialRead" : "diskSequentialReadCached", rates.megabytes_per_second, clock,
                detail),
       FigureOf(is_direct ? "diskRandomRead" : "diskRandomReadCached", rates.reads_per_second, clock, detail)},
      std::nullopt};
}

}  // namespace

Measurement MeasureDisk(const DiskProbeOptions& options, const Clock& clock) {
  Result<Measurement> measured = Measure(options, clock);
  if (measured.ok()) return *std::move(measured);
  return Missing(api::ProbeCheck::kDisk, api::ProbeGap::kFailed, measured.status().message());
}

}  // namespace paceline::agent
