#include "lib/net/stream_socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/net/host_lookup.h"
#include "lib/net/openssl_handles.h"
#include "lib/net/url.h"

namespace paceline::net {
namespace {

constexpr const char* kConnectTimedOut = "connect timed out";
constexpr const char* kIdle = "idle: the server sent nothing for too long";
constexpr const char* kWriteStuck = "the server takes no data";

Status SocketError(std::string_view what, int error) {
  return UnavailableError(fmt::format("{}: {}", what, std::strerror(error)));
}

// What our BIO reads from and writes to.
struct BioSocket {
  int fd = -1;
  bool is_drained = false;  // the last read took all that had come: the next one would find nothing yet
};

// OpenSSL's own socket BIO writes without MSG_NOSIGNAL, so that a closed peer would end the process by SIGPIPE.
int BioRead(BIO* bio, char* out, int size) {
  BIO_clear_retry_flags(bio);
  auto* const socket = static_cast<BioSocket*>(BIO_get_data(bio));
  const ssize_t got = recv(socket->fd, out, static_cast<size_t>(size), 0);
  socket->is_drained = got > 0 && got < size;
  if (got == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

int BioWrite(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t put =
      send(static_cast<const BioSocket*>(BIO_get_data(bio))->fd, data, static_cast<size_t>(size), MSG_NOSIGNAL);
  if (put < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(put);
}

long BioControl(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return 0;
}

BIO_METHOD* SocketBioMethod() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "paceline socket");
    BIO_meth_set_read(made, BioRead);
    BIO_meth_set_write(made, BioWrite);
    BIO_meth_set_ctrl(made, BioControl);
    return made;
  }();
  return method;
}

void SetOption(int fd, int level, int name, int value) {
  // Each option makes things better and none is needed: a kernel without it still works.
  setsockopt(fd, level, name, &value, sizeof(value));
}

Result<UniqueFd> ConnectTo(const SocketAddress& address, const WaitLimit& limit, TimePoint connect_by) {
  UniqueFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_valid()) return ErrnoStatus(errno, "socket");
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0) {
    if (errno != EINPROGRESS) return SocketError("connect", errno);
    RETURN_IF_ERROR(limit.Await(fd.get(), POLLOUT, connect_by, kConnectTimedOut));
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return SocketError("connect", error);
  }
  SetOption(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE, 30);
  SetOption(fd.get(), IPPROTO_TCP, TCP_KEEPINTVL, 10);
  SetOption(fd.get(), IPPROTO_TCP, TCP_KEEPCNT, 3);
  return fd;
}

}  // namespace

struct StreamSocket::Tls {
  std::shared_ptr<SSL_CTX> context;  // keeps the material alive; OpenSSL counts it too
  BioSocket socket;
  SslPtr ssl;
};

StreamSocket::StreamSocket(UniqueFd fd) : fd_(std::move(fd)) {}

StreamSocket::~StreamSocket() {
  if (tls_ == nullptr) return;
  // One attempt at a polite end; nobody waits for the answer.
  SSL_shutdown(tls_->ssl.get());
  ERR_clear_error();
}

Result<std::unique_ptr<StreamSocket>> StreamSocket::Connect(const std::string& host, uint16_t port,
                                                            const WaitLimit& limit, TimePoint connect_by) {
  ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses, LookUpHost(host, port, limit, connect_by));
  Status last;
  for (size_t i = 0; i < addresses.size(); ++i) {
    // An address that does not answer must not use up the time of those after it.
    const TimePoint now = limit.clock().Now();
    const TimePoint share = now + (connect_by - now) / static_cast<int64_t>(addresses.size() - i);
    Result<UniqueFd> fd = ConnectTo(addresses[i], limit, share);
    if (fd.ok()) return std::unique_ptr<StreamSocket>(new StreamSocket(*std::move(fd)));
    last = fd.status();
    if (last.code() != StatusCode::kUnavailable) return last;
  }
  return last;
}

Status StreamSocket::StartTls(std::shared_ptr<ssl_ctx_st> context, const std::string& verified_name,
                              const WaitLimit& limit, TimePoint connect_by) {
  auto tls = std::make_unique<Tls>();
  tls->context = std::move(context);
  tls->ssl.reset(SSL_new(tls->context.get()));
  BIO* bio = BIO_new(SocketBioMethod());
  if (tls->ssl == nullptr || bio == nullptr) {
    BIO_free(bio);
    return InternalError("TLS: " + TakeOpensslError());
  }
  tls->socket.fd = fd_.get();
  BIO_set_data(bio, &tls->socket);
  BIO_set_init(bio, 1);
  SSL_set_bio(tls->ssl.get(), bio, bio);
  SSL_set_mode(tls->ssl.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (!IsIpLiteral(verified_name)) SSL_set_tlsext_host_name(tls->ssl.get(), verified_name.c_str());
  tls_ = std::move(tls);

  while (true) {
    ERR_clear_error();
    const int result = SSL_connect(tls_->ssl.get());
    if (result == 1) return Status();
    const int error = SSL_get_error(tls_->ssl.get(), result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
      const short events = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
      RETURN_IF_ERROR(limit.Await(fd_.get(), events, connect_by, kConnectTimedOut));
      continue;
    }
    const long verified = SSL_get_verify_result(tls_->ssl.get());
    const int socket_error = errno;
    std::string reason = TakeOpensslError();
    if (error == SSL_ERROR_SYSCALL && socket_error != 0) reason = std::strerror(socket_error);
    if (verified != X509_V_OK) reason += fmt::format(": {}", X509_verify_cert_error_string(verified));
    SSL_set_quiet_shutdown(tls_->ssl.get(), 1);
    return UnavailableError(fmt::format("TLS handshake with {}: {}", verified_name, reason));
  }
}

Result<size_t> StreamSocket::Read(char* out, size_t size, const WaitLimit& limit, TimePoint silence_ends) {
  RETURN_IF_ERROR(limit.Check());
  return tls_ == nullptr ? ReadPlain(out, size, limit, silence_ends) : ReadTls(out, size, limit, silence_ends);
}

Result<size_t> StreamSocket::ReadPlain(char* out, size_t size, const WaitLimit& limit, TimePoint silence_ends) {
  while (true) {
    const ssize_t got = recv(fd_.get(), out, size, 0);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return SocketError("read", errno);
    RETURN_IF_ERROR(limit.Await(fd_.get(), POLLIN, silence_ends, kIdle));
  }
}

Status StreamSocket::AfterTlsCall(int result, const WaitLimit& limit, TimePoint silence_ends, bool* ended) {
  switch (SSL_get_error(tls_->ssl.get(), result)) {
    case SSL_ERROR_WANT_READ: return limit.Await(fd_.get(), POLLIN, silence_ends, kIdle);
    case SSL_ERROR_WANT_WRITE: return limit.Await(fd_.get(), POLLOUT, silence_ends, kWriteStuck);
    case SSL_ERROR_ZERO_RETURN: *ended = true; return Status();
    case SSL_ERROR_SYSCALL: {
      const int error = errno;
      SSL_set_quiet_shutdown(tls_->ssl.get(), 1);
      ERR_clear_error();
      return error != 0 ? SocketError("connection", error) : UnavailableError("connection: cut by the server");
    }
    default: SSL_set_quiet_shutdown(tls_->ssl.get(), 1); return UnavailableError("TLS: " + TakeOpensslError());
  }
}

Result<size_t> StreamSocket::ReadTls(char* out, size_t size, const WaitLimit& limit, TimePoint silence_ends) {
  while (true) {
    // A watch gives one event at a time: asking the socket first would be in vain each time.
    if (tls_->socket.is_drained && SSL_has_pending(tls_->ssl.get()) == 0) {
      tls_->socket.is_drained = false;
      RETURN_IF_ERROR(limit.Await(fd_.get(), POLLIN, silence_ends, kIdle));
    }
    ERR_clear_error();
    size_t got = 0;
    const int result = SSL_read_ex(tls_->ssl.get(), out, size, &got);
    if (result == 1) return got;
    bool ended = false;
    RETURN_IF_ERROR(AfterTlsCall(result, limit, silence_ends, &ended));
    if (ended) return 0;
  }
}

Status StreamSocket::Write(std::string_view data, const WaitLimit& limit, TimePoint silence_ends) {
  if (tls_ != nullptr) return WriteTls(data, limit, silence_ends);
  while (!data.empty()) {
    RETURN_IF_ERROR(limit.Check());
    const ssize_t put = send(fd_.get(), data.data(), data.size(), MSG_NOSIGNAL);
    if (put >= 0) {
      data.remove_prefix(static_cast<size_t>(put));
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(limit.Await(fd_.get(), POLLOUT, silence_ends, kWriteStuck));
    } else if (errno != EINTR) {
      return SocketError("write", errno);
    }
  }
  return Status();
}

Status StreamSocket::WriteTls(std::string_view data, const WaitLimit& limit, TimePoint silence_ends) {
  while (!data.empty()) {
    RETURN_IF_ERROR(limit.Check());
    ERR_clear_error();
    size_t put = 0;
    const int result = SSL_write_ex(tls_->ssl.get(), data.data(), data.size(), &put);
    if (result == 1) {
      data.remove_prefix(put);
      continue;
    }
    bool ended = false;
    RETURN_IF_ERROR(AfterTlsCall(result, limit, silence_ends, &ended));
    if (ended) return UnavailableError("write: the server has closed the connection");
  }
  return Status();
}

bool StreamSocket::IsIdleAndOpen() {
  char byte;
  if (tls_ == nullptr) {
    return recv(fd_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR);
  }
  // Not a look at the socket: session tickets may be waiting there, which OpenSSL takes in passing.
  ERR_clear_error();
  size_t got = 0;
  const int result = SSL_peek_ex(tls_->ssl.get(), &byte, 1, &got);
  const bool is_open = result != 1 && SSL_get_error(tls_->ssl.get(), result) == SSL_ERROR_WANT_READ;
  if (!is_open) SSL_set_quiet_shutdown(tls_->ssl.get(), 1);
  ERR_clear_error();
  return is_open;
}

}  // namespace paceline::net
