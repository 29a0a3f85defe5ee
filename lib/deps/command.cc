#include "lib/deps/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "lib/base/stop_signal.h"
#include "lib/base/unique_fd.h"

namespace paceline::deps {
namespace {

constexpr size_t kMaxAnswerBytes = 64U << 10;
constexpr int kCannotRun = 127;

// Pointers into the list, as exec wants them.
std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

int Await(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string FindProgram(const std::string& name, const std::string& path) {
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find(':', start), path.size());
    const std::string file = path.substr(start, end - start) + "/" + name;
    if (end > start && access(file.c_str(), X_OK) == 0) return file;
    start = end + 1;
  }
  return "";
}

Result<CommandEnd> RunChild(const std::vector<std::string>& words, char** environment, CommandOutput output,
                            const Clock& clock) {
  const std::vector<char*> argv = Pointers(words);
  const TimePoint start = clock.Now();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return ErrnoStatus(errno, "fork");
  if (child == 0) {
    RestoreSignalsForChild();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(kCannotRun);  // it died before the line above
    if (output == CommandOutput::kToStderr) dup2(STDERR_FILENO, STDOUT_FILENO);
    execvpe(argv[0], argv.data(), environment);
    _exit(kCannotRun);
  }
  const int code = Await(child);
  return CommandEnd{code, ToSeconds(clock.Now() - start)};
}

// Reads to the end of the pipe; the caller waits for the child.
Result<std::string> ReadAnswer(int pipe, const Clock& clock, Deadline deadline) {
  std::string answer;
  char buffer[4096];
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.Remaining(clock)).count();
    pollfd wait = {pipe, POLLIN, 0};
    const int ready = poll(&wait, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 60000)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && deadline.Expired(clock)) return DeadlineExceededError("no answer in time");
    if (ready == 0) continue;
    const ssize_t got = read(pipe, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read from a program");
    if (got == 0) return answer;
    answer.append(buffer, static_cast<size_t>(got));
    if (answer.size() > kMaxAnswerBytes) return UnavailableError("an answer without end");
  }
}

}  // namespace

Result<CommandEnd> RunInstall(const std::string& command, const std::vector<std::string>& environment,
                              CommandOutput output, const Clock& clock) {
  std::vector<char*> envp = Pointers(environment);
  ASSIGN_OR_RETURN(const CommandEnd end, RunChild({"/bin/sh", "-c", command}, envp.data(), output, clock));
  if (end.code == kCannotRun && access("/bin/sh", X_OK) != 0) {
    return UnavailableError("/bin/sh is not here, and the command needs it");
  }
  return end;
}

Result<CommandEnd> RunProgram(const std::vector<std::string>& words, CommandOutput output, const Clock& clock) {
  return RunChild(words, environ, output, clock);
}

Result<std::string> AskProgram(const std::vector<std::string>& words, const std::string& path,
                               const std::vector<std::string>& environment, const Clock& clock, Deadline deadline) {
  const std::string program = FindProgram(words.at(0), path);
  if (program.empty()) return NotFoundError(words[0] + " is not on the PATH");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "make a pipe");
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const std::vector<char*> argv = Pointers(words), envp = Pointers(environment);
  const pid_t child = fork();
  if (child < 0) return ErrnoStatus(errno, "fork");
  if (child == 0) {
    RestoreSignalsForChild();
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nowhere, STDIN_FILENO);
    dup2(writer.get(), STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    execve(program.c_str(), argv.data(), envp.data());
    _exit(kCannotRun);
  }
  writer.Reset();
  Result<std::string> answer = ReadAnswer(reader.get(), clock, deadline);
  if (!answer.ok()) kill(child, SIGKILL);
  const int code = Await(child);
  if (!answer.ok()) return answer.status().Annotate(program);
  if (code != 0) return UnavailableError(fmt::format("{} ended with {}", program, code));
  return answer;
}

}  // namespace paceline::deps
