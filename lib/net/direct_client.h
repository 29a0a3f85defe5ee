// HTTP/1.1 requests over blocking sockets of our own, with the body handed on piece by piece as it comes off the wire.
// Exists beside CpprestClient because that library holds a whole HTTP chunk in memory before it gives any of it, and an
// API server sends a list of 300 MB as one chunk: docs/decisions/0003-http-client.md. Thread-safe.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <stop_token>

#include "lib/base/mutex.h"
#include "lib/net/client_tls_cache.h"
#include "lib/net/http.h"
#include "lib/net/retry.h"
#include "lib/net/stream_socket.h"
#include "lib/net/url.h"

namespace paceline::net {

class DirectClient {
 public:
  // Gets the status and headers with every piece of the body. A non-ok return ends the exchange and is its result.
  using PieceConsumer = std::function<Status(const HttpResponse& head, std::string_view piece)>;

  struct Limits {
    Duration connect_timeout;  // to the end of the TLS handshake
    Duration idle_timeout;     // longest silence of the server
    Deadline deadline;
    std::stop_token stop;
  };

  // `clock` must outlive the client.
  DirectClient(Url url, std::optional<Url> proxy, std::shared_ptr<ClientTlsCache> tls, const Clock& clock);

  // Sends `request` (with all headers but Host and Content-Length) and reads the answer on the calling thread. The body
  // of the result is empty. Fails as HttpTransport::Stream does; then `*exposure` says whether the server can have seen
  // the request. A GET or HEAD that meets a connection which the server has just closed is sent once more.
  Result<HttpResponse> Exchange(const HttpRequest& request, const PieceConsumer& consumer, const Limits& limits,
                                Exposure* exposure);

 private:
  struct Idle {
    std::unique_ptr<StreamSocket> socket;
    TimePoint since;
  };
  struct Outcome {
    Result<HttpResponse> response;
    bool has_answer = false;  // at least one byte came
    bool was_cut = false;     // the server closed the connection before that
  };

  std::string Head(const HttpRequest& request) const;
  std::unique_ptr<StreamSocket> TakeIdle() EXCLUDES(mutex_);
  void Keep(std::unique_ptr<StreamSocket> socket) EXCLUDES(mutex_);
  Result<std::unique_ptr<StreamSocket>> Open(const WaitLimit& limit, TimePoint connect_by);
  Status Tunnel(StreamSocket& socket, const WaitLimit& limit, TimePoint connect_by) const;
  Outcome Run(std::unique_ptr<StreamSocket> socket, const HttpRequest& request, const PieceConsumer& consumer,
              const WaitLimit& limit, Duration idle_timeout);

  const Url url_;
  const std::optional<Url> proxy_;
  const std::shared_ptr<ClientTlsCache> tls_;
  const Clock& clock_;
  Mutex mutex_;
  std::list<Idle> idle_ GUARDED_BY(mutex_);  // newest first
};

}  // namespace paceline::net
