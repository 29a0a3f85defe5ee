#include "lib/base/local_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace paceline {
namespace {

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return InvalidArgumentError(fmt::format("socket \"{}\": the path must have 1 to 107 bytes", path));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

const sockaddr* Generic(const sockaddr_un& address) { return reinterpret_cast<const sockaddr*>(&address); }

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

// Removes a socket that a dead process left behind.
Status ClearSocket(const std::string& path, const sockaddr_un& address) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return errno == ENOENT ? Status() : ErrnoStatus(errno, path);
  if (!S_ISSOCK(info.st_mode)) return AlreadyExistsError(path + " is there and is no socket");
  const UniqueFd probe = MakeSocket();
  if (connect(probe.get(), Generic(address), sizeof address) == 0 || errno == EAGAIN) {
    return AlreadyExistsError("socket " + path + " is served by another process");
  }
  if (errno != ECONNREFUSED) return ErrnoStatus(errno, "socket " + path);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(errno, path);
  return Status();
}

// Until a line feed (kept out) where `stops_at_newline`, else until the end.
Result<std::string> Receive(int fd, size_t max_bytes, bool stops_at_newline, const Clock& clock, Deadline deadline) {
  std::string text;
  char piece[16384];
  while (true) {
    const ssize_t got = recv(fd, piece, sizeof piece, 0);
    if (got == 0) return text;
    if (got > 0) {
      const size_t scanned = text.size();
      text.append(piece, static_cast<size_t>(got));
      const size_t end = stops_at_newline ? text.find('\n', scanned) : std::string::npos;
      if (end != std::string::npos) text.resize(end);
      if (text.size() > max_bytes) return ResourceExhaustedError(fmt::format("more than {} bytes", max_bytes));
      if (end != std::string::npos) return text;
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(WaitFor(fd, POLLIN, clock, deadline));
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, "receive");
    }
  }
}

}  // namespace

Result<UniqueFd> ListenLocal(const std::string& path) {
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  RETURN_IF_ERROR(ClearSocket(path, address));
  UniqueFd listener = MakeSocket();
  // Nobody else may connect, not even between bind and chmod.
  const mode_t mask = umask(0177);
  const int bound = bind(listener.get(), Generic(address), sizeof address);
  const int error = errno;
  umask(mask);
  if (bound != 0) return ErrnoStatus(error, "socket " + path);
  if (listen(listener.get(), 64) != 0) return ErrnoStatus(errno, "listen on " + path);
  return listener;
}

Result<UniqueFd> AcceptLocal(int listener) {
  UniqueFd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection.is_valid()) return UnavailableError(ErrnoStatus(errno, "accept").message());
  return connection;
}

Result<uid_t> PeerUser(int connection) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return ErrnoStatus(errno, "peer of a socket");
  return peer.uid;
}

Result<std::string> ReceiveLine(int connection, size_t max_bytes, const Clock& clock, Deadline deadline) {
  return Receive(connection, max_bytes, true, clock, deadline);
}

Status SendText(int connection, std::string_view text, const Clock& clock, Deadline deadline) {
  while (!text.empty()) {
    const ssize_t sent = send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      text.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(WaitFor(connection, POLLOUT, clock, deadline));
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, "send");
    }
  }
  return Status();
}

Result<std::string> AskLocal(const std::string& path, std::string_view line, size_t max_bytes, const Clock& clock,
                             Deadline deadline) {
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  const UniqueFd fd = MakeSocket();
  if (connect(fd.get(), Generic(address), sizeof address) != 0) {
    return UnavailableError(fmt::format("nobody answers at {}: {}", path, ErrnoStatus(errno, "connect").message()));
  }
  RETURN_IF_ERROR(SendText(fd.get(), std::string(line) + "\n", clock, deadline).Annotate(path));
  return Receive(fd.get(), max_bytes, false, clock, deadline).Annotate(path);
}

}  // namespace paceline
