// One HTTP client per server and TLS setting, kept for the life of the registry client: a blob is read in many ranges,
// and a handshake for each would double their latency. Redirect targets and token services get theirs here too.
//
// Callers: RegistryExchange, Authorizer. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/net/direct_client.h"
#include "lib/net/url.h"

namespace paceline::blocks {

struct TlsFiles {
  bool skip_verification = false;
  std::vector<std::string> ca_files;                              // trusted besides the system's store
  std::vector<std::pair<std::string, std::string>> client_files;  // certificate, key; the first pair is used
};

class ConnectionPool {
 public:
  // `proxy` is for all connections.
  ConnectionPool(std::optional<net::Url> proxy, const Clock& clock) : proxy_(std::move(proxy)), clock_(clock) {}

  // `origin` with whatever path; files are read at each new connection, so rotated ones count.
  std::shared_ptr<net::DirectClient> For(const net::Url& origin, const TlsFiles& tls) EXCLUDES(mutex_);

 private:
  const std::optional<net::Url> proxy_;
  const Clock& clock_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<net::DirectClient>> clients_ GUARDED_BY(mutex_);
};

}  // namespace paceline::blocks
