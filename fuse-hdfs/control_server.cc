#include "fuse-hdfs/control_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <thread>

#include "lib/base/unique_fd.h"

namespace paceline::fuse_hdfs {
namespace {

constexpr size_t kMaxLineBytes = 4096;
constexpr size_t kMaxAnswerBytes = 64 << 20;
constexpr Duration kClientLimit = std::chrono::seconds(5);

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return InvalidArgumentError("socket " + path + ": the path must have 1 to 107 bytes");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

UniqueFd MakeSocket() { return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

int MillisecondsLeft(const Clock& clock, Deadline deadline) {
  if (deadline.is_infinite()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.Remaining(clock));
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

Status WaitFor(int fd, short events, const Clock& clock, Deadline deadline) {
  pollfd wanted = {.fd = fd, .events = events, .revents = 0};
  const int ready = poll(&wanted, 1, MillisecondsLeft(clock, deadline));
  if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, "poll");
  if (ready == 0) return DeadlineExceededError("the other side of the socket is silent");
  return Status();
}

Status SendAll(int fd, std::string_view text, const Clock& clock, Deadline deadline) {
  while (!text.empty()) {
    const ssize_t sent = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      text.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(WaitFor(fd, POLLOUT, clock, deadline));
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, "send");
    }
  }
  return Status();
}

// Until `stop_at` is in the text, or the end.
Result<std::string> ReceiveText(int fd, size_t max_bytes, bool stops_at_newline, const Clock& clock,
                                Deadline deadline) {
  std::string text;
  char piece[4096];
  while (text.size() < max_bytes) {
    const ssize_t got = recv(fd, piece, sizeof piece, 0);
    if (got == 0) return text;
    if (got > 0) {
      text.append(piece, static_cast<size_t>(got));
      const size_t end = stops_at_newline ? text.find('\n') : std::string::npos;
      if (end != std::string::npos) return text.substr(0, end);
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(WaitFor(fd, POLLIN, clock, deadline));
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, "receive");
    }
  }
  return ResourceExhaustedError("the text on the socket is too long");
}

class SocketServer final : public ControlServer {
 public:
  SocketServer(std::string path, UniqueFd listener, const Clock& clock, ControlHandler handler)
      : path_(std::move(path)),
        listener_(std::move(listener)),
        end_(eventfd(0, EFD_CLOEXEC)),
        clock_(clock),
        handler_(std::move(handler)),
        thread_([this] { Serve(); }) {}

  ~SocketServer() override {
    const uint64_t one = 1;
    // An eventfd takes a 1 unless it is full, and then it is readable all the same.
    [[maybe_unused]] const ssize_t written = write(end_.get(), &one, sizeof one);
    thread_.join();
    unlink(path_.c_str());
  }

 private:
  void Serve() {
    while (true) {
      pollfd wanted[] = {{.fd = listener_.get(), .events = POLLIN, .revents = 0},
                         {.fd = end_.get(), .events = POLLIN, .revents = 0}};
      if (poll(wanted, 2, -1) < 0 && errno != EINTR) return;
      if (wanted[1].revents != 0) return;
      if (wanted[0].revents == 0) continue;
      const UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (client.is_valid()) Answer(client.get());
    }
  }

  void Answer(int client) {
    const Deadline deadline = Deadline::After(clock_, kClientLimit);
    Result<std::string> line = ReceiveText(client, kMaxLineBytes, true, clock_, deadline);
    if (!line.ok()) return;
    std::istringstream text(*line);
    std::vector<std::string> words;
    for (std::string word; text >> word;) words.push_back(word);
    if (words.empty()) return;
    const std::string answer = handler_(words);
    // A command may take long; a client that has gone meanwhile misses nothing of ours.
    SendAll(client, answer, clock_, Deadline::After(clock_, kClientLimit)).IgnoreError();
  }

  const std::string path_;
  const UniqueFd listener_, end_;
  const Clock& clock_;
  const ControlHandler handler_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<ControlServer>> ControlServer::Start(const std::string& path, const Clock& clock,
                                                            ControlHandler handler) {
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  {
    const UniqueFd probe = MakeSocket();
    if (connect(probe.get(), name, sizeof address) == 0) return AlreadyExistsError("socket " + path + ": in use");
    if (errno == ECONNREFUSED) unlink(path.c_str());
  }
  UniqueFd listener = MakeSocket();
  const mode_t mask = umask(0177);
  const int bound = bind(listener.get(), name, sizeof address);
  const int error = errno;
  umask(mask);
  if (bound != 0) return ErrnoStatus(error, "socket " + path);
  if (listen(listener.get(), 16) != 0) return ErrnoStatus(errno, "listen on " + path);
  return std::unique_ptr<ControlServer>(new SocketServer(path, std::move(listener), clock, std::move(handler)));
}

Result<std::string> AskControlServer(const std::string& path, const std::string& line, const Clock& clock,
                                     Deadline deadline) {
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  const UniqueFd fd = MakeSocket();
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return UnavailableError("no mount serves " + path + ": " + ErrnoStatus(errno, "connect").message());
  }
  RETURN_IF_ERROR(SendAll(fd.get(), line + "\n", clock, deadline));
  return ReceiveText(fd.get(), kMaxAnswerBytes, false, clock, deadline);
}

}  // namespace paceline::fuse_hdfs
