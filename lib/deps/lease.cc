#include "lib/deps/lease.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "lib/base/filesystem.h"
#include "lib/base/json.h"

namespace paceline::deps {
namespace {

constexpr Duration kRetryPeriod = std::chrono::milliseconds(200);
constexpr size_t kMaxTextBytes = 4096;

// Who holds a lock, as its holder wrote it.
std::string HolderOf(const std::string& path) {
  const Result<std::string> text = RealFileSystem().ReadFile(path, kMaxTextBytes);
  const Result<Json> json = text.ok() ? ParseJson(*text) : text.status();
  if (!json.ok()) return "somebody";
  return "process " + std::to_string(JsonIntOr(*json, "pid", 0).value_or(0)) + " on " +
         JsonStringOr(*json, "host", "?").value_or("?") + " since " + JsonStringOr(*json, "since", "?").value_or("?");
}

void WriteHolder(int file, const Clock& clock) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const std::string text =
      DumpJson({{"pid", getpid()}, {"host", host}, {"since", FormatRfc3339(clock.WallNow())}}) + "\n";
  // Only a message would miss it.
  if (ftruncate(file, 0) != 0 || pwrite(file, text.data(), text.size(), 0) < 0) return;
}

}  // namespace

Result<Lease> Lease::Take(const std::string& folder, const std::string& name, Mode mode, const Clock& clock,
                          Deadline deadline, const std::stop_token& stop) {
  RETURN_IF_ERROR(RealFileSystem().MakeDirectories(folder, 0755));
  const std::string path = folder + "/" + name;
  for (;;) {
    // Opened anew each time: a collector may have removed the file.
    UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!file.is_valid()) return ErrnoStatus(errno, "open " + path);
    if (flock(file.get(), (mode == Mode::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) {
      if (mode == Mode::kExclusive) WriteHolder(file.get(), clock);
      return Lease(std::move(file));
    }
    if (errno != EWOULDBLOCK && errno != EINTR) return ErrnoStatus(errno, "lock " + path);
    if (deadline.Expired(clock)) return AbortedError(path + " is held by " + HolderOf(path));
    if (!clock.SleepFor(kRetryPeriod, stop)) return CancelledError("stopped while waiting for " + path);
  }
}

bool Lease::IsTaken(const std::string& folder, const std::string& name) {
  const UniqueFd file(open((folder + "/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  return file.is_valid() && flock(file.get(), LOCK_SH | LOCK_NB) != 0;
}

}  // namespace paceline::deps
