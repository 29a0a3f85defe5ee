// The client's side of SASL DIGEST-MD5 (RFC 2831) as Hadoop uses it, for delegation tokens on RPC and for block tokens
// and encryption keys on the data port. Internal to lib/hdfs. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/hdfs/security.h"

namespace paceline::hdfs {

enum class Qop { kAuth, kAuthInt, kAuthConf };
std::string_view QopName(Qop qop);
// "authentication", "integrity", "privacy", several with commas. kInvalidArgument names `key`.
Result<std::vector<Qop>> ParseProtection(const std::string& key, const std::string& value);

class DigestMd5Client {
 public:
  struct Credentials {
    std::string user, password;
    std::string authzid;     // empty: none is sent
    std::string digest_uri;  // "hdfs/0"
  };

  // `allowed` are the levels that our configuration accepts.
  DigestMd5Client(Credentials credentials, std::vector<Qop> allowed);

  // The answer to the server's challenge. kPermissionDenied when no level or cipher suits both sides; kDataLoss when
  // the challenge makes no sense. `cnonce` is random, and fixed in tests.
  Result<std::string> Respond(std::string_view challenge, std::string cnonce);
  // kPermissionDenied when the server does not know our password, and so is not the one we mean.
  Status CheckFinal(std::string_view payload) const;

  Qop qop() const { return qop_; }
  // Null for Qop::kAuth.
  Result<std::unique_ptr<SaslProtection>> MakeProtection() const;

 private:
  std::string ResponseFor(std::string_view method) const;

  const Credentials credentials_;
  const std::vector<Qop> allowed_;
  std::string realm_, nonce_, cnonce_, ha1_;
  Qop qop_ = Qop::kAuth;
};

// key=value and key="value" behind each other with commas; quotes may hold escapes. kDataLoss.
Result<std::vector<std::pair<std::string, std::string>>> ParseDirectives(std::string_view text);

}  // namespace paceline::hdfs
