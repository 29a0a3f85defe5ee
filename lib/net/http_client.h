// The HttpTransport over the network: Send on cpprestsdk, Stream on blocking OpenSSL sockets of our own. Why two, and
// the traps that this class works round: docs/decisions/0003-http-client.md.
//
// Connections are reused. TLS material is read through functions at every new connection, so a rotated CA or client
// certificate takes effect without a restart. TLS 1.2 is the floor. Redirects are not followed (the caller decides, so
// that no credential crosses hosts). A body comes decoded from gzip only when the caller's own Accept-Encoding asked
// for it. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lib/net/http.h"

namespace paceline::net {

struct ClientTls {
  std::function<Result<std::string>()> ca;                  // PEM bundle; null: the system's store
  std::function<Result<std::string>()> client_certificate;  // PEM chain; null: none
  std::function<Result<std::string>()> client_key;          // PEM
  std::string server_name;         // verified and sent as SNI instead of the URL's host when non-empty
  bool skip_verification = false;  // kubeconfig's insecure-skip-tls-verify; never a default
};

struct RetryPolicy {
  int max_attempts = 4;
  Duration initial_backoff = std::chrono::milliseconds(100);  // doubled each time, with full jitter
  Duration max_backoff = std::chrono::seconds(5);
};

struct HttpClientOptions {
  std::string base_url;  // "https://10.0.0.1:6443"
  ClientTls tls;
  // Adds credentials just before each attempt; called again with `was_rejected` after a 401 (once per Send).
  std::function<Status(Headers& headers, bool was_rejected)> authorize;
  // Send retries 429 and 503 with Retry-After, 502/503/504 and connection failures for GET, HEAD, PUT and DELETE; other
  // methods only when the connection was refused, that is when the server cannot have seen the request.
  RetryPolicy retry;
  Duration connect_timeout = std::chrono::seconds(10);
  size_t max_body_bytes = 512 * 1024 * 1024;
  std::string user_agent = "paceline";
  std::string proxy_url;  // "http://[user:password@]host:port"; https requests are tunnelled through it by CONNECT
};

// Sets the size of the thread pool that all clients of the process share. Call it first thing in main, before any
// client is made: later it is too late and kAborted says so. Without it the pool has 40 threads. The calls of this API
// never block a pool thread, so a few suffice; host names are looked up on one more thread of the pool's own.
Status InitHttpThreads(int threads);

// kInvalidArgument for a malformed URL. Does not connect, and does not read the TLS material yet. `clock` must outlive
// the client. The functions in `options` may be called from any thread and, after a call was given up at its deadline,
// for as long as the operating system takes to give up too: what they capture must be owned by them or outlive the
// process.
Result<std::unique_ptr<HttpTransport>> NewHttpClient(HttpClientOptions options, const Clock& clock);

}  // namespace paceline::net
