// The HttpTransport over the network, on cpprestsdk. Why that library and the traps that this class works round:
// docs/decisions/0003-http-client.md.
//
// Connections are reused. TLS material is read through functions at every new connection, so a rotated CA or client
// certificate takes effect without a restart. Redirects are not followed (the caller decides, so that no credential
// crosses hosts). Thread-safe.
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
  std::string server_name;       // verified and sent as SNI instead of the URL's host when non-empty
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
  std::string proxy_url;
};

// kInvalidArgument for a malformed URL. Does not connect. `clock` must outlive the client.
Result<std::unique_ptr<HttpTransport>> NewHttpClient(HttpClientOptions options, const Clock& clock);

}  // namespace paceline::net
