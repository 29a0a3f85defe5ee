#include "lib/base/daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace paceline {
namespace {

constexpr char kWorks = 'w';  // in front of the summary, which may be empty

int AwaitChild(pid_t child, const UniqueFd& word) {
  std::string told;
  char buffer[512];
  for (ssize_t got; (got = read(word.get(), buffer, sizeof buffer)) > 0;) {
    told.append(buffer, static_cast<size_t>(got));
  }
  if (!told.empty()) {
    if (told.size() > 1) fmt::print("{}\n", told.substr(1));
    return 0;
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int RunInBackground(const std::function<int(UniqueFd word)>& serve) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return 1;
  UniqueFd listens(ends[0]), tells(ends[1]);
  // Before any thread exists: a fork takes only the calling one along.
  const pid_t child = fork();
  if (child < 0) return 1;
  if (child > 0) {
    tells.Reset();
    return AwaitChild(child, listens);
  }
  listens.Reset();
  setsid();
  return serve(std::move(tells));
}

Status LeaveTerminal(const std::string& log_file, std::string_view summary, UniqueFd& word) {
  const char* log_path = log_file.empty() ? "/dev/null" : log_file.c_str();
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const UniqueFd log(open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!null.is_valid() || !log.is_valid()) return ErrnoStatus(errno, log_path);
  dup2(null.get(), STDIN_FILENO);
  dup2(log.get(), STDOUT_FILENO);
  dup2(log.get(), STDERR_FILENO);
  const std::string told = kWorks + std::string(summary);
  if (write(word.get(), told.data(), told.size()) < 0) return ErrnoStatus(errno, "tell the parent");
  word.Reset();
  return Status();
}

}  // namespace paceline
