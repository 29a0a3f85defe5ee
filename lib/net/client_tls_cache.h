// Turns ClientTls (functions that return PEM text) into OpenSSL contexts, parsing again only when the bytes changed: a
// handshake must not pay for parsing a CA bundle, and a rotated file must count at the next connection. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "lib/base/mutex.h"
#include "lib/net/http_client.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX
struct x509_store_ctx_st;

namespace paceline::net {

class ClientTlsCache {
 public:
  // `host` is the name or address to verify unless options.server_name says otherwise.
  ClientTlsCache(ClientTls options, const std::string& host);

  // The context for a new connection, made from the material as it is now. When reading or parsing fails the last good
  // one is returned instead (a file is being replaced, say); without one, the failure. May block in the functions.
  Result<std::shared_ptr<ssl_ctx_st>> Context();

  // Sets up a context that somebody else made (cpprestsdk makes one per connection) with the same material. This object
  // must outlive the handshake.
  Status Configure(ssl_ctx_st* context);

  // Why the newest connection set up by Configure could not be trusted or prepared, once; "" when there is nothing to
  // say. The library reports a failed handshake without its reason, hence this side channel; it is for messages only.
  std::string TakeFailure();

  const std::string& verified_name() const { return verified_name_; }
  bool skips_verification() const { return options_.skip_verification; }

 private:
  struct Material;

  Result<std::shared_ptr<const Material>> Current();
  Status Apply(ssl_ctx_st* context, const Material& material) const;
  void NoteFailure(std::string failure);
  static int VerifyAndNote(x509_store_ctx_st* chain, void* cache);

  const ClientTls options_;
  const std::string verified_name_;
  Mutex mutex_;
  std::shared_ptr<const Material> last_good_ GUARDED_BY(mutex_);
  std::string failure_ GUARDED_BY(mutex_);
};

}  // namespace paceline::net
