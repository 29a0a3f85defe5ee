#include "lib/blocks/format/signature.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <limits>

#include "lib/blocks/format/digest.h"

namespace paceline::blocks {

struct OpensslKey {
  EVP_PKEY* key = nullptr;

  explicit OpensslKey(EVP_PKEY* owned) : key(owned) {}
  OpensslKey(const OpensslKey&) = delete;
  OpensslKey& operator=(const OpensslKey&) = delete;
  ~OpensslKey() { EVP_PKEY_free(key); }
};

namespace {

constexpr size_t kSignatureBytes = 64;
constexpr size_t kKeyIdDigits = 16;

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
};
struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Bio = std::unique_ptr<BIO, FreeBio>;
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;

Bio ReadBio(std::string_view text) {
  if (text.size() > static_cast<size_t>(std::numeric_limits<int>::max())) return nullptr;
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Without this OpenSSL would ask for a passphrase on the terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

bool IsEd25519(const OpensslKey& key) { return EVP_PKEY_id(key.key) == EVP_PKEY_ED25519; }

Result<KeyId> IdOf(const OpensslKey& key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key.key, &der);
  if (size <= 0) return InternalError("a public key could not be written");
  const std::string bytes(reinterpret_cast<const char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  return Sha256Of(bytes).Hex().substr(0, kKeyIdDigits);
}

// One BEGIN ... END of a PEM text. PEM_read_bio_PUBKEY would do, but since OpenSSL 3 does not say what ended it.
class PemBlock {
 public:
  PemBlock() = default;
  PemBlock(const PemBlock&) = delete;
  PemBlock& operator=(const PemBlock&) = delete;
  ~PemBlock() { Drop(); }

  // False at the end of the text, and for a block that is damaged.
  bool Read(BIO* bio) {
    Drop();
    return PEM_read_bio(bio, &name_, &header_, &data_, &size_) == 1;
  }
  std::string_view name() const { return name_; }
  const unsigned char* data() const { return data_; }
  long size() const { return size_; }

 private:
  void Drop() {
    OPENSSL_free(name_);
    OPENSSL_free(header_);
    OPENSSL_free(data_);
    name_ = header_ = nullptr;
    data_ = nullptr;
  }

  char *name_ = nullptr, *header_ = nullptr;
  unsigned char* data_ = nullptr;
  long size_ = 0;
};

const unsigned char* Bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

}  // namespace

Result<TrustedKeys> TrustedKeys::FromPem(std::string_view pem) {
  const Bio bio = ReadBio(pem);
  TrustedKeys trusted;
  ERR_clear_error();
  PemBlock block;
  while (bio != nullptr && block.Read(bio.get())) {
    if (block.name() != PEM_STRING_PUBLIC) continue;
    const unsigned char* der = block.data();
    const auto key = std::make_shared<const OpensslKey>(d2i_PUBKEY(nullptr, &der, block.size()));
    if (key->key == nullptr) return InvalidArgumentError("a public key in PEM is damaged");
    if (!IsEd25519(*key)) return InvalidArgumentError("a public key is not of the kind Ed25519");
    ASSIGN_OR_RETURN(KeyId id, IdOf(*key));
    trusted.keys_.emplace_back(std::move(id), key);
  }
  // The end of the text shows as "no start line"; anything else is a key that is there but broken.
  const unsigned long code = ERR_peek_last_error();
  const bool at_end = ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (trusted.empty()) return InvalidArgumentError("no public key in PEM (BEGIN PUBLIC KEY)");
  if (!at_end) return InvalidArgumentError("a public key in PEM is damaged");
  return trusted;
}

void TrustedKeys::Add(const TrustedKeys& others) {
  keys_.insert(keys_.end(), others.keys_.begin(), others.keys_.end());
}

std::vector<KeyId> TrustedKeys::ids() const {
  std::vector<KeyId> ids;
  for (const auto& [id, key] : keys_) ids.push_back(id);
  return ids;
}

SignatureVerdict TrustedKeys::Verify(std::string_view message, const Signature& signature) const {
  SignatureVerdict verdict = SignatureVerdict::kUnknownKey;
  for (const auto& [id, key] : keys_) {
    if (id != signature.key) continue;
    verdict = SignatureVerdict::kWrong;
    const Context context(EVP_MD_CTX_new());
    const bool is_good = context != nullptr && signature.bytes.size() == kSignatureBytes &&
                         EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key->key) == 1 &&
                         EVP_DigestVerify(context.get(), Bytes(signature.bytes), signature.bytes.size(), Bytes(message),
                                          message.size()) == 1;
    ERR_clear_error();
    if (is_good) return SignatureVerdict::kGood;
  }
  return verdict;
}

Result<SigningKey> SigningKey::FromPem(std::string_view pem) {
  const Bio bio = ReadBio(pem);
  ERR_clear_error();
  EVP_PKEY* read = bio == nullptr ? nullptr : PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr);
  ERR_clear_error();
  if (read == nullptr) return InvalidArgumentError("no private key in PEM, or one with a passphrase");
  auto key = std::make_shared<const OpensslKey>(read);
  if (!IsEd25519(*key)) return InvalidArgumentError("the private key is not of the kind Ed25519");
  ASSIGN_OR_RETURN(KeyId id, IdOf(*key));
  return SigningKey(std::move(id), std::move(key));
}

TrustedKeys SigningKey::trusted() const {
  TrustedKeys trusted;
  trusted.keys_.emplace_back(id_, key_);
  return trusted;
}

Result<Signature> SigningKey::Sign(std::string_view message) const {
  Signature signature{id_, std::string(kSignatureBytes, '\0')};
  size_t size = signature.bytes.size();
  const Context context(EVP_MD_CTX_new());
  const bool is_signed = context != nullptr &&
                         EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_->key) == 1 &&
                         EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.bytes.data()), &size,
                                        Bytes(message), message.size()) == 1;
  ERR_clear_error();
  if (!is_signed || size != kSignatureBytes) return InternalError("OpenSSL did not sign");
  return signature;
}

}  // namespace paceline::blocks
