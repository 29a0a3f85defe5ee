#include "lib/hdfs/byte_stream.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "lib/base/unique_fd.h"
#include "lib/net/host_lookup.h"

namespace paceline::hdfs {
namespace {

Status SocketError(std::string_view what, const std::string& peer, int error) {
  char text[128];
  return UnavailableError(fmt::format("{} {}: {}", what, peer, strerror_r(error, text, sizeof text)));
}

class TcpStream final : public ByteStream {
 public:
  TcpStream(UniqueFd fd, std::string peer, const Clock& clock)
      : fd_(std::move(fd)), peer_(std::move(peer)), clock_(clock) {}

  Result<size_t> ReadSome(char* out, size_t size, Deadline deadline) override {
    while (true) {
      const ssize_t got = recv(fd_.get(), out, size, 0);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return SocketError("read from", peer_, errno);
      RETURN_IF_ERROR(Await(POLLIN, deadline, "no answer from"));
    }
  }

  Status Write(std::string_view head, std::string_view body, Deadline deadline) override {
    while (!head.empty() || !body.empty()) {
      iovec parts[2] = {{const_cast<char*>(head.data()), head.size()}, {const_cast<char*>(body.data()), body.size()}};
      msghdr message = {};
      message.msg_iov = parts;
      message.msg_iovlen = 2;
      const ssize_t put = sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
      if (put >= 0) {
        const size_t of_head = std::min(static_cast<size_t>(put), head.size());
        head.remove_prefix(of_head);
        body.remove_prefix(static_cast<size_t>(put) - of_head);
      } else if (errno == EAGAIN) {
        RETURN_IF_ERROR(Await(POLLOUT, deadline, "no bytes are taken by"));
      } else if (errno != EINTR) {
        return SocketError("write to", peer_, errno);
      }
    }
    return Status();
  }

  void Shutdown() override { shutdown(fd_.get(), SHUT_RDWR); }

  bool IsIdleAndOpen() override {
    char byte;
    return recv(fd_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR);
  }

  // Connects, bounded by `deadline`; on failure the stream is of no use.
  Status Connect(const net::SocketAddress& address, Deadline deadline) {
    if (connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0) return Status();
    if (errno != EINPROGRESS) return SocketError("connect to", peer_, errno);
    RETURN_IF_ERROR(Await(POLLOUT, deadline, "no connection to"));
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    return error == 0 ? Status() : SocketError("connect to", peer_, error);
  }

 private:
  Status Await(short events, Deadline deadline, std::string_view complaint) const {
    while (true) {
      int wait_ms = -1;
      if (!deadline.is_infinite()) {
        const Duration left = deadline.Remaining(clock_);
        if (left <= Duration::zero()) return DeadlineExceededError(fmt::format("{} {}", complaint, peer_));
        const auto whole = std::chrono::ceil<std::chrono::milliseconds>(left).count();
        wait_ms = static_cast<int>(std::min<int64_t>(whole, 60'000));
      }
      pollfd poller = {.fd = fd_.get(), .events = events, .revents = 0};
      const int ready = poll(&poller, 1, wait_ms);
      if (ready > 0) return Status();
      if (ready < 0 && errno != EINTR) return SocketError("poll", peer_, errno);
    }
  }

  const UniqueFd fd_;
  const std::string peer_;
  const Clock& clock_;
};

void SetOption(int fd, int level, int name, int value) {
  // Each option makes things better and none is needed.
  setsockopt(fd, level, name, &value, sizeof(value));
}

}  // namespace

Status ByteStream::ReadFull(char* out, size_t size, Deadline deadline) {
  while (size > 0) {
    ASSIGN_OR_RETURN(const size_t got, ReadSome(out, size, deadline));
    if (got == 0) return UnavailableError("the connection was closed in the middle of an answer");
    out += got;
    size -= got;
  }
  return Status();
}

Status BufferedReader::Fill(Deadline deadline) {
  begin_ = end_ = 0;
  ASSIGN_OR_RETURN(const size_t got, stream_.ReadSome(buffer_.data(), buffer_.size(), deadline));
  if (got == 0) return UnavailableError("the connection was closed by the server");
  end_ = got;
  return Status();
}

Status BufferedReader::ReadFull(char* out, size_t size, Deadline deadline) {
  while (size > 0) {
    if (begin_ == end_) {
      if (size >= buffer_.size()) return stream_.ReadFull(out, size, deadline);
      RETURN_IF_ERROR(Fill(deadline));
    }
    const size_t take = std::min(size, end_ - begin_);
    std::memcpy(out, buffer_.data() + begin_, take);
    begin_ += take;
    out += take;
    size -= take;
  }
  return Status();
}

Status BufferedReader::ReadDelimited(std::string* message, size_t max_bytes, Deadline deadline) {
  uint64_t size = 0;
  for (int shift = 0;; shift += 7) {
    if (shift > 28) return DataLossError("an answer starts with no length");
    char byte;
    RETURN_IF_ERROR(ReadFull(&byte, 1, deadline));
    size |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) break;
  }
  if (size > max_bytes)
    return DataLossError(fmt::format("an answer of {} bytes, at most {} are taken", size, max_bytes));
  message->resize(size);
  return ReadFull(message->data(), size, deadline);
}

Result<std::unique_ptr<ByteStream>> ConnectTcp(const std::string& host, uint16_t port, const Clock& clock,
                                               Deadline deadline) {
  const std::string peer = fmt::format("{}:{}", host, port);
  const net::WaitLimit limit(clock, deadline, {});
  Result<std::vector<net::SocketAddress>> addresses = net::LookUpHost(host, port, limit, deadline.when());
  if (!addresses.ok()) return addresses.status().Annotate("connect to " + peer);
  Status last;
  for (const net::SocketAddress& address : *addresses) {
    UniqueFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.is_valid()) return ErrnoStatus(errno, "socket");
    SetOption(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
    SetOption(fd.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
    auto stream = std::make_unique<TcpStream>(std::move(fd), peer, clock);
    last = stream->Connect(address, deadline);
    if (last.ok()) return std::unique_ptr<ByteStream>(std::move(stream));
  }
  if (last.code() == StatusCode::kDeadlineExceeded) return UnavailableError(last.message());
  return last;
}

}  // namespace paceline::hdfs
