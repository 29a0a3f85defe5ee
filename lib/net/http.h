// HTTP as the rest of Paceline sees it: plain request and response values and one interface, so that the library
// underneath (cpprestsdk, behind http_client.h) can be changed and tests can answer without sockets.
//
// Callers: lib/kube (API server), lib/blocks (registries), agent and operator (each other's APIs).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::net {

// Header names compare without case, as HTTP says.
struct HeaderLess {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const;
};
using Headers = std::map<std::string, std::string, HeaderLess>;

struct HttpRequest {
  std::string method = "GET";
  std::string target;  // path and query, already percent-encoded: "/api/v1/pods?limit=500"
  Headers headers;
  std::string body;
};

struct HttpResponse {
  int status = 0;  // 200, 404, ...; 0 only before a response was read
  Headers headers;
  std::string body;  // empty when the body was streamed

  // The header's value, or "" when absent.
  std::string_view Header(std::string_view name) const;
};

// Percent-encodes everything but RFC 3986 unreserved characters; for path segments and query values.
std::string UrlEncode(std::string_view text);

// Maps an HTTP status to a code: 404 kNotFound; 409, 410, 412 kAborted; 401, 403, 407 kPermissionDenied; 405, 501
// kUnimplemented; 408, 425, 429 and other 5xx kUnavailable; other 4xx kInvalidArgument; 1xx and 3xx kInternal; 2xx ok.
// The message is "<what>: HTTP status <n>". The only place that knows; users with a richer error body refine it.
Status HttpStatusToStatus(int http_status, std::string_view what);

// Receives a streamed body piece by piece, on the calling thread. A non-ok return ends the transfer and is returned by
// Stream. Slow consumers slow the sender down: nothing is buffered beyond one piece.
using BodyConsumer = std::function<Status(std::string_view piece)>;

// One server (scheme, host, port, credentials). Thread-safe; calls may run at the same time.
class HttpTransport {
 public:
  virtual ~HttpTransport() = default;

  // Sends and reads the whole response; blocks until `deadline` or `stop`. A response of any status is a value: only
  // failures to get one (kUnavailable for connect/reset/TLS, kDeadlineExceeded, kCancelled, kResourceExhausted when the
  // body is over the limit) are a Status. Retries only as http_client.h says.
  virtual Result<HttpResponse> Send(const HttpRequest& request, Deadline deadline, std::stop_token stop = {}) = 0;

  // As Send, but a 2xx body goes to `consumer` in pieces as they arrive and the returned response has an empty body; a
  // non-2xx body is returned whole. Ends with ok when the server ends the body. `idle_timeout` bounds the silence
  // between two pieces (kUnavailable "idle"), which is how a dead watch is noticed; never retried.
  virtual Result<HttpResponse> Stream(const HttpRequest& request, const BodyConsumer& consumer, Duration idle_timeout,
                                      Deadline deadline, std::stop_token stop) = 0;
};

}  // namespace paceline::net
