// An HTTP/1.1 server (Boost.Beast inside, one translation unit) for /metrics, probes, the admission webhook and the
// agent's API. Not for the open internet: every limit below is there so that a stuck or hostile peer inside the cluster
// costs a bounded amount of memory, threads and time.
//
// Handlers run on a pool of `threads` and may block; they must honour the deadline they are given: at the deadline the
// client gets 503, but the thread is the handler's until it returns. Connections cost no thread. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lib/base/log.h"
#include "lib/net/http.h"

namespace paceline::net {

struct ServerRequest {
  std::string method;
  std::string path;   // decoded, without the query
  std::string query;  // as sent, without '?'
  Headers headers;
  std::string body;
  std::string peer_address;           // "10.0.0.7"
  std::string client_certificate_cn;  // empty without mTLS
};

struct ServerResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  Headers headers;
};

using Handler = std::function<ServerResponse(const ServerRequest& request, Deadline deadline)>;

// PEM texts. Read again through `load` every `reload_period`, on a thread of the server's own; when `load` gives the
// same bytes nothing happens. A pair that does not parse is refused and the last good one stays in use. Open
// connections go on with the pair that they began with.
struct TlsPair {
  std::string certificate_chain;
  std::string private_key;
};

struct ServerTls {
  std::function<Result<TlsPair>()> load;
  Duration reload_period = std::chrono::seconds(10);
  std::string client_ca;  // PEM; non-empty: clients must show a certificate signed by it (mTLS)
};

struct ServerOptions {
  std::string address = "0.0.0.0";
  uint16_t port = 0;  // 0 picks a free one; see HttpServer::port
  int threads = 4;
  int max_connections = 256;
  size_t max_header_bytes = 16 * 1024;
  size_t max_body_bytes = 4 * 1024 * 1024;
  Duration read_timeout = std::chrono::seconds(10);  // handshake, header, body and writing the answer, each
  Duration idle_timeout = std::chrono::seconds(90);  // between requests on one connection
  Duration handler_timeout = std::chrono::seconds(10);
};

class HttpServer {
 public:
  // Binds and starts serving. kUnavailable when the address is taken, kInvalidArgument for options, routes or a TLS
  // pair that make no sense, and whatever `load` fails with. `routes` maps "/exact/path", or "/a/prefix/" that ends in
  // '/', to its handler; the longest match wins, else 404. A method may stand in front: "GET /metrics" answers GET and
  // HEAD, and 405 goes to the rest; without one the handler gets every method. The body of an answer to HEAD is not
  // sent. `tls` null serves plain HTTP. `clock` and `log` must outlive the server; the time-outs of connections are
  // kept by the real clock.
  static Result<std::unique_ptr<HttpServer>> Start(const ServerOptions& options, std::map<std::string, Handler> routes,
                                                   std::unique_ptr<ServerTls> tls, const Clock& clock, Logger& log);
  virtual ~HttpServer() = default;  // stops as Shutdown(0) does

  virtual uint16_t port() const = 0;
  // Stops accepting, lets running requests end for at most `grace`, then closes everything. Blocks; safe to call twice.
  virtual void Shutdown(Duration grace) = 0;
};

}  // namespace paceline::net
