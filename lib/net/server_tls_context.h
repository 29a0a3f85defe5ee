// The server's certificate as an OpenSSL context that follows its source: a thread reads the pair again every reload
// period and swaps the context when the bytes changed. Connections that are open keep the one they began with.
// Thread-safe.
#pragma once

#include <memory>
#include <thread>

#include "lib/base/mutex.h"
#include "lib/net/http_server.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace paceline::net {

class ServerTlsContext {
 public:
  // Reads the pair once. The failure of `load`, or kInvalidArgument when the pair or the client CA does not parse.
  // `clock` and `log` are borrowed.
  static Result<std::unique_ptr<ServerTlsContext>> Start(ServerTls options, const Clock& clock, Logger& log);
  ~ServerTlsContext();

  // For a new connection; never null.
  std::shared_ptr<ssl_ctx_st> Current() const;

 private:
  ServerTlsContext(ServerTls options, const Clock& clock, Logger& log);
  // Loads and swaps; nothing happens when the bytes are those of last time.
  Status Reload();
  void RunReloader(std::stop_token stop);

  const ServerTls options_;
  const Clock& clock_;
  Logger& log_;
  mutable Mutex mutex_;
  std::shared_ptr<ssl_ctx_st> context_ GUARDED_BY(mutex_);
  TlsPair seen_;  // last pair tried, good or bad; touched by Start and then by the reloader only
  std::jthread reloader_;
};

}  // namespace paceline::net
