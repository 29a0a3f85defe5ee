#include "lib/kube/config_exec.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "lib/base/unique_fd.h"

extern char** environ;

namespace paceline::kube {
namespace {

constexpr size_t kMaxOutputBytes = 1024 * 1024;
constexpr size_t kQuotedErrorBytes = 300;

struct Pipe {
  UniqueFd read, write;
};

Result<Pipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

std::vector<std::string> WithEnvironment(const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> out;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const bool is_replaced =
        std::any_of(added.begin(), added.end(), [&](const auto& entry) { return text.starts_with(entry.first + "="); });
    if (!is_replaced) out.emplace_back(text);
  }
  for (const auto& [name, value] : added) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

Result<pid_t> Spawn(const std::string& command, const std::vector<std::string>& args,
                    const std::vector<std::pair<std::string, std::string>>& env, int out_fd, int error_fd) {
  std::vector<std::string> argv_texts{command};
  argv_texts.insert(argv_texts.end(), args.begin(), args.end());
  std::vector<std::string> env_texts = WithEnvironment(env);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, error_fd, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // a group of its own, so that its children die with it
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, command.c_str(), &actions, &attributes, Pointers(argv_texts).data(),
                                   Pointers(env_texts).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return ErrnoStatus(error, command);
  return pid;
}

// Reads both pipes until the program has closed them.
Status Drain(int out_fd, int error_fd, std::string* out, std::string* error, Deadline deadline, const Clock& clock,
             const std::stop_token& stop) {
  pollfd fds[2] = {{out_fd, POLLIN, 0}, {error_fd, POLLIN, 0}};
  std::string* const texts[2] = {out, error};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (deadline.Expired(clock)) return DeadlineExceededError("it did not end in time");
    if (stop.stop_requested()) return CancelledError("it was ended");
    // In short steps, since the clock that the deadline is of may not be the kernel's.
    if (::poll(fds, 2, 100) < 0 && errno != EINTR) return ErrnoStatus(errno, "poll");
    for (int i = 0; i < 2; ++i) {
      if (fds[i].fd < 0 || (fds[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      char buffer[4096];
      const ssize_t count = ::read(fds[i].fd, buffer, sizeof buffer);
      if (count > 0) texts[i]->append(buffer, static_cast<size_t>(count));
      if (count == 0 || (count < 0 && errno != EINTR)) fds[i].fd = -1;
      if (texts[i]->size() > kMaxOutputBytes) return ResourceExhaustedError("it printed more than 1 MiB");
    }
  }
  return {};
}

}  // namespace

Result<std::string> RunProgram(const std::string& command, const std::vector<std::string>& args,
                               const std::vector<std::pair<std::string, std::string>>& env, Deadline deadline,
                               const Clock& clock, std::stop_token stop) {
  ASSIGN_OR_RETURN(Pipe out, MakePipe());
  ASSIGN_OR_RETURN(Pipe error, MakePipe());
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(command, args, env, out.write.get(), error.write.get()));
  out.write.Reset();
  error.write.Reset();
  std::string output, complaint;
  const Status drained = Drain(out.read.get(), error.read.get(), &output, &complaint, deadline, clock, stop);
  if (!drained.ok()) ::kill(-pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  RETURN_IF_ERROR(drained.Annotate(command));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  std::string why = WIFEXITED(status) ? "exit status " + std::to_string(WEXITSTATUS(status))
                                      : "killed by signal " + std::to_string(WTERMSIG(status));
  complaint = complaint.substr(0, std::min(complaint.find_last_not_of(" \n") + 1, kQuotedErrorBytes));
  return UnavailableError(command + ": " + why + (complaint.empty() ? "" : ": " + complaint));
}

}  // namespace paceline::kube
