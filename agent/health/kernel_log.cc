#include "agent/health/kernel_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>

namespace paceline::agent {
namespace {

constexpr std::string_view kXid = "NVRM: Xid (PCI:";
constexpr Duration kRemembered = std::chrono::minutes(10);
constexpr char kOfXids[] = "in the last ten minutes";
constexpr size_t kMostXids = 64;
constexpr size_t kRecordBytes = 8192;  // the kernel's largest is smaller
constexpr int kMostReads = 4096;       // a look does not follow a log that somebody floods

}  // namespace

std::optional<Xid> ParseXid(std::string_view line) {
  const size_t at = line.find(kXid);
  if (at == std::string_view::npos) return std::nullopt;
  line.remove_prefix(at + kXid.size());
  const size_t end = line.find("): ");
  if (end == 0 || end == std::string_view::npos || end > 32) return std::nullopt;
  Xid xid{std::string(line.substr(0, end)), 0};
  line.remove_prefix(end + 3);
  const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), xid.number);
  if (error != std::errc() || xid.number <= 0) return std::nullopt;
  return xid;
}

KernelLog::KernelLog(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (fd_.is_valid() && ::lseek(fd_.get(), 0, SEEK_END) < 0) fd_.Reset();
}

void KernelLog::Read(TimePoint now) {
  char record[kRecordBytes];
  for (int reads = 0; fd_.is_valid() && reads < kMostReads; ++reads) {
    const ssize_t got = ::read(fd_.get(), record, sizeof record);
    if (got < 0 && (errno == EPIPE || errno == EINTR)) continue;  // what was next has been written over
    if (got <= 0) return;
    rest_.append(record, static_cast<size_t>(got));
    for (size_t end; (end = rest_.find('\n')) != std::string::npos; rest_.erase(0, end + 1)) {
      if (std::optional<Xid> xid = ParseXid(std::string_view(rest_).substr(0, end)))
        seen_.push_back({*std::move(xid), now});
    }
    if (rest_.size() > kRecordBytes) rest_.clear();
  }
}

std::vector<analysis::DeviceFault> KernelLog::Look(TimePoint now) {
  Read(now);
  std::erase_if(seen_, [now](const Seen& seen) { return seen.at + kRemembered <= now; });
  if (seen_.size() > kMostXids) seen_.erase(seen_.begin(), seen_.end() - kMostXids);
  std::map<std::pair<std::string, int>, int> counts;
  for (const Seen& seen : seen_) ++counts[{seen.xid.device, seen.xid.number}];
  std::vector<analysis::DeviceFault> faults;
  for (const auto& [what, count] : counts) {
    faults.push_back(
        {"", "GPU " + what.first, fmt::format("Xid {}", what.second), static_cast<double>(count), kOfXids});
  }
  return faults;
}

}  // namespace paceline::agent
