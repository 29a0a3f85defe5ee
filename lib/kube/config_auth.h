// Credentials that stay valid while we run: token files and CAs that are rewritten under us, exec plugins whose
// credentials expire. Feeds lib/net's client, which asks before each request and at each new connection. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "lib/base/clock.h"
#include "lib/kube/config.h"
#include "lib/net/http_client.h"

namespace paceline::kube {

class Credentials {
 public:
  // kInvalidArgument when the config asks for what cannot work (a plugin that needs a terminal, a certificate without
  // its key). Reads nothing yet. `clock` must outlive it.
  static Result<std::shared_ptr<Credentials>> Create(const KubeConfig& config, const Clock& clock);
  virtual ~Credentials() = default;

  // Sets the Authorization and Impersonate-* headers. After `was_rejected` (a 401) nothing remembered is used again:
  // the token file is read and the plugin run afresh. May run a plugin, for at most a minute.
  virtual Status Authorize(net::Headers& headers, bool was_rejected) = 0;
  // The current texts, read at each new connection. Empty when there is none.
  virtual Result<std::string> CertificateAuthority() = 0;
  virtual Result<std::string> ClientCertificate() = 0;
  virtual Result<std::string> ClientKey() = 0;
};

// The settings of lib/net's client for this API server; they share the ownership of `credentials`.
net::HttpClientOptions HttpOptionsFor(const KubeConfig& config, std::shared_ptr<Credentials> credentials,
                                      std::string user_agent);

}  // namespace paceline::kube
