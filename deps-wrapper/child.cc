#include "deps-wrapper/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "deps-wrapper/clock.h"
#include "deps-wrapper/options.h"

namespace paceline::deps_wrapper {
namespace {

constexpr int kPassedOn[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT};
constexpr int64_t kKillAfterMs = 10000;  // between SIGTERM and SIGKILL at a limit
constexpr int64_t kLongestWaitMs = 60000;
constexpr int kNotFound = 127, kNotRunnable = 126;

bool EndsPrograms(int signal) { return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT; }

int CodeOf(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

// The terminal belongs to one process group at a time: to the child's while it runs, if it is ours to give.
void GiveTerminal(pid_t group) {
  if (tcgetpgrp(STDIN_FILENO) < 0) return;
  sigset_t output, before;
  sigemptyset(&output);
  sigaddset(&output, SIGTTOU);
  sigprocmask(SIG_BLOCK, &output, &before);
  tcsetpgrp(STDIN_FILENO, group);
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

// Starts the words in a group of their own; the pipe says errno of exec, and nothing when that worked.
pid_t Start(const Signals& signals, char* const* words, char* const* environment, int* error) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    *error = errno;
    return -1;
  }
  const bool has_terminal = tcgetpgrp(STDIN_FILENO) == getpgrp();
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    if (has_terminal) GiveTerminal(getpid());
    signals.Restore();
    execvpe(words[0], words, environment == nullptr ? environ : environment);
    const int failed = errno;
    if (write(ends[1], &failed, sizeof failed) < 0) _exit(kNotFound);
    _exit(failed == ENOENT ? kNotFound : kNotRunnable);
  }
  *error = child < 0 ? errno : 0;
  if (child > 0) setpgid(child, child);
  close(ends[1]);
  int failed = 0;
  if (child > 0 && read(ends[0], &failed, sizeof failed) == static_cast<ssize_t>(sizeof failed)) *error = failed;
  close(ends[0]);
  return child;
}

ChildEnd RunWords(Signals& signals, std::vector<std::string>& words, int64_t limit_ms, char* const* environment) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return signals.Run(pointers.data(), limit_ms, environment);
}

}  // namespace

Signals::Signals() {
  sigemptyset(&taken_);
  sigaddset(&taken_, SIGCHLD);
  for (const int signal : kPassedOn) sigaddset(&taken_, signal);
  sigprocmask(SIG_BLOCK, &taken_, &before_);
  // Orphans of what is started come to whoever reaps.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void Signals::Restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }

bool Signals::Handle(int signal, pid_t child, int* status) {
  if (signal != SIGCHLD) {
    if (EndsPrograms(signal)) ending_ = signal;
    if (child > 0) kill(-child, signal);
    return false;
  }
  bool has_ended = false;
  int one = 0;
  for (pid_t pid = waitpid(-1, &one, WNOHANG); pid > 0; pid = waitpid(-1, &one, WNOHANG)) {
    if (pid != child) continue;
    has_ended = true;
    *status = one;
  }
  return has_ended;
}

ChildEnd Signals::Run(char* const* words, int64_t limit_ms, char* const* environment) {
  ChildEnd end;
  int error = 0, status = 0;
  const pid_t child = Start(*this, words, environment, &error);
  if (child < 0) return {kNotRunnable, false, true, strerror(error)};
  int64_t next_ms = limit_ms > 0 ? NowMs() + limit_ms : INT64_MAX;
  for (;;) {
    const int64_t wait_ms = std::clamp<int64_t>(next_ms - NowMs(), 0, kLongestWaitMs);
    const timespec wait = {wait_ms / 1000, (wait_ms % 1000) * 1000000};
    const int signal = sigtimedwait(&taken_, nullptr, &wait);
    if (signal > 0 && Handle(signal, child, &status)) break;
    if (NowMs() < next_ms) continue;
    kill(-child, end.was_late ? SIGKILL : SIGTERM);
    end.was_late = true;
    next_ms = NowMs() + kKillAfterMs;
  }
  GiveTerminal(getpgrp());
  end.code = CodeOf(status);
  end.cannot_run = error != 0;
  if (error != 0) end.problem = strerror(error);
  return end;
}

bool Signals::AwaitEnd(int64_t wait_ms) {
  const int64_t until_ms = NowMs() + wait_ms;
  do {
    const int64_t left_ms = std::max<int64_t>(until_ms - NowMs(), 0);
    const timespec wait = {left_ms / 1000, (left_ms % 1000) * 1000000};
    int status = 0;
    const int signal = sigtimedwait(&taken_, nullptr, &wait);
    if (signal > 0) Handle(signal, -1, &status);
  } while (ending_ == 0 && NowMs() < until_ms);
  return ending_ != 0;
}

ChildEnd RunCommand(Signals& signals, const std::string& command, int limit_seconds, char* const* environment) {
  std::vector<std::string> words = PlainWords(command);
  const int64_t limit_ms = int64_t{limit_seconds} * 1000;
  if (!words.empty()) {
    const ChildEnd end = RunWords(signals, words, limit_ms, environment);
    // What is no program may be a word of the shell's own: "cd", "exit".
    const bool may_be_builtin = end.cannot_run && words[0].find('/') == std::string::npos;
    if (!may_be_builtin) return end;
  }
  words = {"/bin/sh", "-c", command};
  ChildEnd end = RunWords(signals, words, limit_ms, environment);
  if (end.cannot_run) end.problem = "it takes a shell, and /bin/sh cannot be run: " + end.problem;
  return end;
}

}  // namespace paceline::deps_wrapper
