// Finds the Authorization header that a registry host wants: Basic, a bearer token from its token service, or a token
// that the user gave. What a host asked for once is answered up front from then on, which saves a round trip per call.
//
// Credentials of a registry go to that registry's hosts and to the token service that it names over TLS, nowhere else.
// Callers: RegistryExchange. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>

#include "lib/base/mutex.h"
#include "lib/blocks/registry/challenge.h"
#include "lib/blocks/registry/credentials.h"
#include "lib/blocks/registry/token_cache.h"
#include "lib/net/url.h"

namespace paceline::blocks {

// On whose behalf and for what.
struct AuthSubject {
  net::Url host;           // that will get the header
  std::string registry;    // whose credentials are used
  std::string repository;  // "" for the API's root
  std::string actions;     // "pull" or "pull,push"
};

class Authorizer {
 public:
  // Sends a request to a token service; any status is a value.
  using SendTo = std::function<Result<net::HttpResponse>(const net::Url& service, const net::HttpRequest& request,
                                                         Deadline deadline, std::stop_token stop)>;

  // `credentials` may be null: anonymous. `clock` is borrowed.
  Authorizer(std::shared_ptr<CredentialSource> credentials, SendTo send, const Clock& clock);

  // The header's value to begin with; "" when the host has not asked yet.
  Result<std::string> UpFront(const AuthSubject& subject, Deadline deadline, std::stop_token stop) EXCLUDES(mutex_);

  // After a 401 with this WWW-Authenticate to a request that had `rejected` ("" for none): the value to try now, or ""
  // when there is nothing else to try. Blocks for the token service. kPermissionDenied when that refuses.
  Result<std::string> Answer(const AuthSubject& subject, std::string_view www_authenticate, const std::string& rejected,
                             Deadline deadline, std::stop_token stop) EXCLUDES(mutex_);

 private:
  Result<std::string> Respond(const AuthSubject& subject, const Challenge& challenge, const std::string& rejected,
                              Deadline deadline, std::stop_token stop);
  Result<Token> FetchToken(const AuthSubject& subject, const Challenge& challenge, const Credential& credential,
                           Deadline deadline, std::stop_token stop);

  const std::shared_ptr<CredentialSource> credentials_;
  const SendTo send_;
  TokenCache tokens_;
  Mutex mutex_;
  std::map<std::string, Challenge> asked_ GUARDED_BY(mutex_);  // by host
};

}  // namespace paceline::blocks
