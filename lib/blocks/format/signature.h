// Signatures with Ed25519 (RFC 8032), and the keys for them in PEM files as OpenSSL writes them:
//
//   openssl genpkey -algorithm ed25519 -out signing.pem        # keep it secret
//   openssl pkey -in signing.pem -pubout -out trusted.pem      # give it to whoever checks
//
// Called by whoever signs or checks what lies in a store (lib/deps). Keys are values that share what is immutable;
// thread-safe. Nothing blocks.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"

namespace paceline::blocks {

struct OpensslKey;  // an Ed25519 key, public or with its private half

// The first 16 hexadecimal digits of the SHA-256 of a public key in DER (SubjectPublicKeyInfo):
// openssl pkey -pubin -in trusted.pem -outform DER | sha256sum
using KeyId = std::string;

struct Signature {
  KeyId key;
  std::string bytes;  // 64
};

enum class SignatureVerdict { kGood, kUnknownKey, kWrong };

// Public keys, any number of them.
class TrustedKeys {
 public:
  TrustedKeys() = default;
  // A text with one or more public keys one after the other; what is between them is left out. kInvalidArgument when
  // there is none, when one is damaged or of another kind.
  static Result<TrustedKeys> FromPem(std::string_view pem);

  void Add(const TrustedKeys& others);
  bool empty() const { return keys_.empty(); }
  std::vector<KeyId> ids() const;

  SignatureVerdict Verify(std::string_view message, const Signature& signature) const;

 private:
  friend class SigningKey;
  std::vector<std::pair<KeyId, std::shared_ptr<const OpensslKey>>> keys_;
};

class SigningKey {
 public:
  // A private key without a passphrase. kInvalidArgument for anything else.
  static Result<SigningKey> FromPem(std::string_view pem);

  const KeyId& id() const { return id_; }
  // Its public half.
  TrustedKeys trusted() const;
  // kInternal when OpenSSL fails, which it has no reason to.
  Result<Signature> Sign(std::string_view message) const;

 private:
  SigningKey(KeyId id, std::shared_ptr<const OpensslKey> key) : id_(std::move(id)), key_(std::move(key)) {}

  KeyId id_;
  std::shared_ptr<const OpensslKey> key_;
};

}  // namespace paceline::blocks
