// A TCP or TLS server that does exactly what a test's script says, byte by byte, also what no HTTP server may do: cut a
// body, reset, stay silent, send garbage. Each accepted connection runs the script on a thread of its own.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/base/unique_fd.h"
#include "lib/net/tls_certificates.h"

struct ssl_st;
struct ssl_ctx_st;

namespace paceline::net {

// One accepted connection. All calls block; they return false once the client is gone or the server is being destroyed.
class Peer {
 public:
  Peer(int fd, ssl_st* ssl) : fd_(fd), ssl_(ssl) {}

  // Reads a request's head, and its body when it has a Content-Length. Empty when the connection ended before that.
  std::string ReadRequest();
  bool Write(std::string_view data);
  // Says nothing more and blocks until the client closes.
  void AwaitClose();
  // Connects to 127.0.0.1:`port` and passes bytes both ways until either side ends, as a proxy's tunnel does.
  void Relay(uint16_t port);
  // Ends the connection with RST instead of FIN.
  void Reset();
  // Ends it properly now: close_notify and FIN. Otherwise the connection is cut (FIN alone) when the script returns.
  void Close();

  int number = 0;  // 0 for the first connection of the server

 private:
  long Receive(char* out, size_t size);

  int fd_;
  ssl_st* ssl_;
  std::string unread_;
};

class MisbehavingServer {
 public:
  using Script = std::function<void(Peer& peer)>;

  // Plain TCP on 127.0.0.1, or on ::1 when `host` says so.
  explicit MisbehavingServer(Script script, const std::string& host = "127.0.0.1");
  // TLS with this certificate; `client_ca` non-empty demands a client certificate.
  MisbehavingServer(Script script, const CertificateAndKey& certificate, const std::string& client_ca = "");
  ~MisbehavingServer();

  uint16_t port() const { return port_; }
  std::string url() const;
  int connections() const { return connections_; }

 private:
  void Listen(const std::string& host);
  void AcceptLoop();
  void Serve(int fd, int number);

  Script script_;
  std::string host_;
  uint16_t port_ = 0;
  UniqueFd listener_;
  std::shared_ptr<ssl_ctx_st> context_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0};
  Mutex mutex_;
  std::vector<int> open_ GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ GUARDED_BY(mutex_);
  std::thread acceptor_;
};

// A whole response with a Content-Length.
std::string OkResponse(std::string_view body, std::string_view more_headers = "");

}  // namespace paceline::net
