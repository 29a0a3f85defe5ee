// What a registry says when it wants to know who asks (WWW-Authenticate, RFC 9110 11.6.1), and what its token service
// answers (distribution token authentication). Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blocks/registry/credentials.h"
#include "lib/net/http.h"

namespace paceline::blocks {

struct Challenge {
  enum class Scheme { kBasic, kBearer };
  Scheme scheme = Scheme::kBasic;
  std::string realm, service, scope;  // of kBearer; `realm` is the token service's URL
};

// All challenges of a header that are understood, in order; other schemes are passed over. Never fails: what cannot be
// read is no challenge.
std::vector<Challenge> ParseChallenges(std::string_view header);

// The one to answer: Bearer before Basic. Null when there is none.
const Challenge* ChooseChallenge(const std::vector<Challenge>& challenges);

// "repository:a/b:pull", the scope of a challenge that names none.
std::string ScopeOf(std::string_view repository, std::string_view actions);

// The request to the token service: GET with Basic credentials, or the OAuth2 POST when there is an identity token.
// `target` of the result is the path and query; the host is the realm's.
net::HttpRequest TokenRequest(const Challenge& challenge, std::string_view realm_path, const Credential& credential);

// "Basic dXNlcjpwYXNz"
std::string BasicAuthorization(const Credential& credential);

struct Token {
  std::string value;
  Duration lifetime{0};  // 60 s when the service does not say
};

// Reads the token service's answer. kInvalidArgument, without quoting it, when there is no token inside.
Result<Token> ParseTokenAnswer(std::string_view json);

}  // namespace paceline::blocks
