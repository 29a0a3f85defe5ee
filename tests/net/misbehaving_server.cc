#include "tests/net/misbehaving_server.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>

#include "lib/base/check.h"
#include "lib/net/openssl_handles.h"

namespace paceline::net {
namespace {

std::shared_ptr<SSL_CTX> ServerContext(const CertificateAndKey& pair, const std::string& client_ca) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  std::vector<X509Ptr> chain = ParsePemCertificates(pair.certificate).value();
  const EvpPkeyPtr key = ParsePemKey(pair.private_key).value();
  CHECK(SSL_CTX_use_certificate(context.get(), chain.front().get()) == 1);
  CHECK(SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1);
  if (!client_ca.empty()) {
    const std::vector<X509Ptr> cas = ParsePemCertificates(client_ca).value();
    for (const X509Ptr& ca : cas) {
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), ca.get());
    }
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return context;
}

}  // namespace

long Peer::Receive(char* out, size_t size) {
  if (ssl_ == nullptr) return recv(fd_, out, size, 0);
  ERR_clear_error();
  size_t got = 0;
  return SSL_read_ex(ssl_, out, size, &got) == 1 ? static_cast<long>(got) : 0;
}

std::string Peer::ReadRequest() {
  size_t wanted = std::string::npos;
  while (true) {
    if (const size_t end = unread_.find("\r\n\r\n"); end != std::string::npos && wanted == std::string::npos) {
      const size_t length = unread_.find("Content-Length:");
      wanted = end + 4;
      if (length < end) wanted += std::stoul(unread_.substr(length + 15));
    }
    if (unread_.size() >= wanted) {
      std::string request = unread_.substr(0, wanted);
      unread_.erase(0, wanted);
      return request;
    }
    char buffer[4096];
    const long got = Receive(buffer, sizeof(buffer));
    if (got <= 0) return "";
    unread_.append(buffer, static_cast<size_t>(got));
  }
}

bool Peer::Write(std::string_view data) {
  while (!data.empty()) {
    size_t put = 0;
    if (ssl_ == nullptr) {
      const ssize_t sent = send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      put = static_cast<size_t>(sent);
    } else {
      ERR_clear_error();
      if (SSL_write_ex(ssl_, data.data(), data.size(), &put) != 1) return false;
    }
    data.remove_prefix(put);
  }
  return true;
}

void Peer::AwaitClose() {
  char ignored[4096];
  while (Receive(ignored, sizeof(ignored)) > 0) {
  }
}

void Peer::Reset() {
  const linger now = {1, 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

void Peer::Close() {
  if (ssl_ != nullptr) SSL_shutdown(ssl_);
  shutdown(fd_, SHUT_WR);
}

void Peer::Relay(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const UniqueFd other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(other.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return;
  pollfd fds[2] = {{fd_, POLLIN, 0}, {other.get(), POLLIN, 0}};
  while (poll(fds, 2, -1) > 0) {
    for (int i = 0; i < 2; ++i) {
      if (fds[i].revents == 0) continue;
      char buffer[16384];
      const ssize_t got = recv(fds[i].fd, buffer, sizeof(buffer), 0);
      if (got <= 0 || send(fds[1 - i].fd, buffer, static_cast<size_t>(got), MSG_NOSIGNAL) != got) return;
    }
  }
}

MisbehavingServer::MisbehavingServer(Script script, const std::string& host) : script_(std::move(script)) {
  Listen(host);
}

MisbehavingServer::MisbehavingServer(Script script, const CertificateAndKey& certificate, const std::string& client_ca)
    : script_(std::move(script)), context_(ServerContext(certificate, client_ca)) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL's socket BIO, which this server uses, writes without MSG_NOSIGNAL
  Listen("127.0.0.1");
}

MisbehavingServer::~MisbehavingServer() {
  stopping_ = true;
  shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

std::string MisbehavingServer::url() const {
  const std::string host = host_.find(':') == std::string::npos ? host_ : "[" + host_ + "]";
  return (context_ != nullptr ? "https://" : "http://") + host + ":" + std::to_string(port_);
}

void MisbehavingServer::Listen(const std::string& host) {
  host_ = host;
  const bool is_v6 = host.find(':') != std::string::npos;
  sockaddr_in6 v6 = {};
  sockaddr_in v4 = {};
  v6.sin6_family = AF_INET6;
  v4.sin_family = AF_INET;
  CHECK(inet_pton(is_v6 ? AF_INET6 : AF_INET, host.c_str(), is_v6 ? static_cast<void*>(&v6.sin6_addr) : &v4.sin_addr) ==
        1);
  auto* address = is_v6 ? reinterpret_cast<sockaddr*>(&v6) : reinterpret_cast<sockaddr*>(&v4);
  socklen_t size = is_v6 ? sizeof(v6) : sizeof(v4);
  listener_.Reset(socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CHECK(bind(listener_.get(), address, size) == 0);
  CHECK(listen(listener_.get(), 64) == 0);
  CHECK(getsockname(listener_.get(), address, &size) == 0);
  port_ = ntohs(is_v6 ? v6.sin6_port : v4.sin_port);
  acceptor_ = std::thread([this] { AcceptLoop(); });
}

void MisbehavingServer::AcceptLoop() {
  while (true) {
    const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    MutexLock lock(mutex_);
    open_.push_back(fd);
    threads_.emplace_back([this, fd, number = connections_++] { Serve(fd, number); });
  }
}

void MisbehavingServer::Serve(int fd, int number) {
  SslPtr ssl;
  bool is_ready = true;
  if (context_ != nullptr) {
    ssl.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl.get(), fd);
    is_ready = SSL_accept(ssl.get()) == 1;
  }
  Peer peer(fd, ssl.get());
  peer.number = number;
  if (is_ready) script_(peer);
  MutexLock lock(mutex_);
  open_.erase(std::find(open_.begin(), open_.end(), fd));
  close(fd);
}

std::string OkResponse(std::string_view body, std::string_view more_headers) {
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + std::string(more_headers) +
         "\r\n" + std::string(body);
}

}  // namespace paceline::net
