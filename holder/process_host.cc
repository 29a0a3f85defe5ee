#include "holder/process_host.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <optional>
#include <sstream>

#include "holder/protocol.h"
#include "lib/base/unique_fd.h"

namespace paceline::holder {
namespace {

constexpr size_t kMaxReadBytes = 256 * 1024;  // of one pipe in one look, so that a chatterer does not hold us up

UniqueFd OpenPid(int pid) { return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

// Field 22 of /proc/PID/stat; the name in field 2 may hold blanks and parentheses.
std::optional<uint64_t> StartTicks(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  constexpr int kFieldsBefore = 19;  // fields 3 to 21
  for (int i = 0; i < kFieldsBefore; ++i) fields >> field;
  uint64_t ticks = 0;
  if (!(fields >> ticks)) return std::nullopt;
  return ticks;
}

std::string ExitText(int status) {
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

// Mount points of this namespace as the kernel escapes them (blank, tab, line feed, backslash as \ooo).
std::string Unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out.push_back(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0')));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

class SpawnSettings {
 public:
  SpawnSettings() {
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_init(&actions_);
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    // The stop signals are blocked here, and SIGPIPE is ignored; both would be inherited.
    for (const int signal : {SIGPIPE, SIGTERM, SIGINT}) sigaddset(&usual, signal);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &usual);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawnattr_t attributes_;
  posix_spawn_file_actions_t actions_;
};

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

class LinuxProcessHostImpl final : public LinuxProcessHost {
 public:
  Result<ProcessId> Spawn(const SpawnOrder& order) override;
  bool Adopt(const std::string& name, ProcessId process, const std::string& log_pipe) override;
  void Release(const std::string& name, int pid) override;
  void Signal(int pid, int signal) override;
  bool IsMounted(const std::string& path) override;
  Status Unmount(const std::string& path) override;
  void AddPollFds(std::vector<pollfd>* fds) const override;
  ProcessNews Gather() override;

 private:
  struct Pipe {
    UniqueFd fd;
    std::string unfinished;  // a line that has no end yet
  };
  Status OpenPipe(const std::string& name, const std::string& path);
  static void ReadPipe(const std::string& name, Pipe& pipe, ProcessNews* news);

  std::map<int, UniqueFd> processes_;  // pidfds, by pid
  std::map<std::string, Pipe> pipes_;  // by the mount's name
};

Status LinuxProcessHostImpl::OpenPipe(const std::string& name, const std::string& path) {
  if (mkfifo(path.c_str(), 0600) != 0 && errno != EEXIST) return ErrnoStatus(errno, path);
  // For both directions, so that neither side ever sees an end or a broken pipe when the other one is restarted.
  UniqueFd fd(open(path.c_str(), O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.is_valid()) return ErrnoStatus(errno, path);
  pipes_[name] = Pipe{std::move(fd), ""};
  return Status();
}

Result<ProcessId> LinuxProcessHostImpl::Spawn(const SpawnOrder& order) {
  RETURN_IF_ERROR(OpenPipe(order.name, order.log_pipe));
  SpawnSettings settings;
  posix_spawn_file_actions_addopen(&settings.actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  // Non-blocking: a process whose lines nobody takes loses lines, not time.
  posix_spawn_file_actions_addopen(&settings.actions_, STDOUT_FILENO, order.log_pipe.c_str(), O_RDWR | O_NONBLOCK, 0);
  posix_spawn_file_actions_adddup2(&settings.actions_, STDOUT_FILENO, STDERR_FILENO);
  std::vector<std::string> words = {order.program};
  words.insert(words.end(), order.arguments.begin(), order.arguments.end());
  std::vector<std::string> variables = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
  for (const auto& [name, value] : order.environment) variables.push_back(name + "=" + value);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, order.program.c_str(), &settings.actions_, &settings.attributes_,
                                Pointers(words).data(), Pointers(variables).data());
  if (error != 0) return ErrnoStatus(error, "start " + order.program);
  UniqueFd fd = OpenPid(pid);
  const std::optional<uint64_t> ticks = StartTicks(pid);
  if (!fd.is_valid() || !ticks) {  // cannot be: it stays a zombie until we wait for it
    kill(pid, SIGKILL);
    return InternalError(fmt::format("process {} of {} cannot be watched", pid, order.program));
  }
  processes_[pid] = std::move(fd);
  return ProcessId{pid, *ticks};
}

bool LinuxProcessHostImpl::Adopt(const std::string& name, ProcessId process, const std::string& log_pipe) {
  if (process.pid <= 0) return false;
  UniqueFd fd = OpenPid(process.pid);
  // Opened before it is compared: the process behind the descriptor cannot change any more.
  if (!fd.is_valid() || StartTicks(process.pid) != process.start_ticks) return false;
  processes_[process.pid] = std::move(fd);
  OpenPipe(name, log_pipe).IgnoreError();  // its lines are lost then, and nothing else
  return true;
}

void LinuxProcessHostImpl::Release(const std::string& name, int pid) {
  processes_.erase(pid);
  pipes_.erase(name);
}

void LinuxProcessHostImpl::Signal(int pid, int signal) {
  const auto found = processes_.find(pid);
  if (found != processes_.end()) syscall(SYS_pidfd_send_signal, found->second.get(), signal, nullptr, 0);
}

bool LinuxProcessHostImpl::IsMounted(const std::string& path) {
  std::ifstream table("/proc/self/mountinfo");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string id, parent, device, root, mount_point;
    fields >> id >> parent >> device >> root >> mount_point;
    if (Unescape(mount_point) == path) return true;
  }
  return false;
}

Status LinuxProcessHostImpl::Unmount(const std::string& path) {
  while (umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0) {
  }
  if (errno == EINVAL || errno == ENOENT) return Status();
  return ErrnoStatus(errno, "unmount " + path);
}

void LinuxProcessHostImpl::AddPollFds(std::vector<pollfd>* fds) const {
  for (const auto& [pid, fd] : processes_) fds->push_back({.fd = fd.get(), .events = POLLIN, .revents = 0});
  for (const auto& [name, pipe] : pipes_) fds->push_back({.fd = pipe.fd.get(), .events = POLLIN, .revents = 0});
}

void LinuxProcessHostImpl::ReadPipe(const std::string& name, Pipe& pipe, ProcessNews* news) {
  char piece[4096];
  for (size_t total_bytes = 0; total_bytes < kMaxReadBytes;) {
    const ssize_t got = read(pipe.fd.get(), piece, sizeof piece);
    if (got <= 0) return;
    total_bytes += static_cast<size_t>(got);
    for (const char c : std::string_view(piece, static_cast<size_t>(got))) {
      if (c != '\n') {
        if (pipe.unfinished.size() < kMaxLogLineBytes) pipe.unfinished.push_back(c);
        continue;
      }
      news->output.emplace_back(name, std::move(pipe.unfinished));
      pipe.unfinished.clear();
    }
  }
}

ProcessNews LinuxProcessHostImpl::Gather() {
  ProcessNews news;
  int status = 0;
  // Children, and orphans that came to us, whose ends mean nothing here.
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (processes_.count(pid) > 0) news.exits[pid] = ExitText(status);
  }
  for (const auto& [pid, fd] : processes_) {
    pollfd wanted = {.fd = fd.get(), .events = POLLIN, .revents = 0};
    const bool has_ended = poll(&wanted, 1, 0) == 1;
    // Of a process that an earlier holder started only its end is to be seen.
    if (has_ended && news.exits.count(pid) == 0 && waitpid(pid, &status, WNOHANG) < 0) {
      news.exits[pid] = "ended, cause unknown";
    }
  }
  // After the ends: what a process wrote last is in its pipe by now.
  for (auto& [name, pipe] : pipes_) ReadPipe(name, pipe, &news);
  return news;
}

}  // namespace

std::unique_ptr<LinuxProcessHost> LinuxProcessHost::Make() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  return std::make_unique<LinuxProcessHostImpl>();
}

}  // namespace paceline::holder
