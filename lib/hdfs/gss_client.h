// The client's side of SASL GSSAPI with Kerberos (RFC 4752). Credentials are those that the Kerberos library finds: a
// ticket cache (KRB5CCNAME), or a keytab of the client (KRB5_CLIENT_KTNAME), from which it gets and renews tickets by
// itself. Internal to lib/hdfs; the only place that knows the GSSAPI. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/hdfs/digest_md5.h"
#include "lib/hdfs/security.h"

namespace paceline::hdfs {

class GssClient {
 public:
  // For the service `principal`, as in "nn/host.example.com" or "nn/host@REALM".
  static Result<std::unique_ptr<GssClient>> Make(const std::string& principal, std::vector<Qop> allowed);
  virtual ~GssClient() = default;

  // The next token for the server, after its token (empty at first). kPermissionDenied with the Kerberos library's
  // reason, as "no ticket". May block for the KDC, as long as the Kerberos library's own limits are.
  virtual Result<std::string> Step(std::string_view token) = 0;

  // After the server's success. Null when the level is authentication alone.
  virtual std::unique_ptr<SaslProtection> TakeProtection() = 0;
};

}  // namespace paceline::hdfs
