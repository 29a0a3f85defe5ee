// One request and its answer over cpprestsdk, without retries: the part of the HTTP client that knows that library. Its
// traps, each with the way round it that is taken here, are listed in docs/decisions/0003-http-client.md. Thread-safe.
#pragma once

#include <memory>
#include <stop_token>

#include "lib/net/client_tls_cache.h"
#include "lib/net/http_client.h"
#include "lib/net/retry.h"
#include "lib/net/url.h"

namespace paceline::net {

struct ExchangeLimits {
  Duration connect_timeout;  // to the end of the TLS handshake
  size_t max_body_bytes;
};

class CpprestClient {
 public:
  // `url` must not name an IPv6 literal: the library cannot resolve one. `proxy` may be null.
  CpprestClient(const Url& url, const Url* proxy, std::shared_ptr<ClientTlsCache> tls, const ExchangeLimits& limits,
                const Clock& clock);
  ~CpprestClient();

  // Sends `request` (complete with all headers) and reads the whole answer. Fails as HttpTransport::Send does; then
  // `*exposure` says whether the server can have seen it. Blocks until `deadline` or `stop`.
  Result<HttpResponse> Exchange(const HttpRequest& request, Deadline deadline, std::stop_token stop,
                                Exposure* exposure);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace paceline::net
