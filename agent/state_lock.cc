#include "agent/state_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "lib/base/filesystem.h"

namespace paceline::agent {

Result<UniqueFd> LockState(const std::string& state_dir, const Clock& clock, Deadline deadline, std::stop_token stop) {
  constexpr Duration kRetryAfter = std::chrono::milliseconds(200);
  RealFileSystem files;
  RETURN_IF_ERROR(files.MakeDirectories(state_dir, 0700));
  const std::string path = state_dir + "/agent.lock";
  UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_valid()) return ErrnoStatus(errno, path);
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return ErrnoStatus(errno, path);
    if (deadline.Expired(clock)) return UnavailableError(path + ": another agent holds it");
    if (!clock.SleepFor(kRetryAfter, stop)) return CancelledError(path + ": stopped while waiting for the lock");
  }
  return file;
}

}  // namespace paceline::agent
