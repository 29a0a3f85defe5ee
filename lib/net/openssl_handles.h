// Owners for OpenSSL objects, and its error queue as a Status. Internal to lib/net: included by .cc files only, because
// it brings OpenSSL's headers. Not thread-safe, like any owner.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace paceline::net {

template <auto Free>
struct OpensslDeleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};

using BioPtr = std::unique_ptr<BIO, OpensslDeleter<BIO_free_all>>;
using X509Ptr = std::unique_ptr<X509, OpensslDeleter<X509_free>>;
using EvpPkeyPtr = std::unique_ptr<EVP_PKEY, OpensslDeleter<EVP_PKEY_free>>;
using X509StorePtr = std::unique_ptr<X509_STORE, OpensslDeleter<X509_STORE_free>>;
using SslCtxPtr = std::unique_ptr<SSL_CTX, OpensslDeleter<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, OpensslDeleter<SSL_free>>;

// The newest entry of this thread's error queue as text, or "unknown error"; empties the queue.
std::string TakeOpensslError();

// All certificates of a PEM text, in order. kInvalidArgument when one does not parse or there is none.
Result<std::vector<X509Ptr>> ParsePemCertificates(std::string_view pem);
// kInvalidArgument when it does not parse; a key protected by a passphrase does not.
Result<EvpPkeyPtr> ParsePemKey(std::string_view pem);

// The subject's or issuer's common name, "" when it has none.
std::string CommonName(const X509_NAME* name);

}  // namespace paceline::net
