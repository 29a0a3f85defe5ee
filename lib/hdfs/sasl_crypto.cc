#include "lib/hdfs/sasl_crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "lib/base/check.h"

namespace paceline::hdfs {
namespace {

const unsigned char* Raw(std::string_view bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }
unsigned char* Raw(std::string& bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

class EvpCipher final : public StreamCipher {
 public:
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  };
  using Context = std::unique_ptr<EVP_CIPHER_CTX, Free>;

  explicit EvpCipher(Context context) : context_(std::move(context)) {}

  std::string Apply(std::string_view bytes) override {
    std::string out(bytes.size() + EVP_MAX_BLOCK_LENGTH, '\0');
    int size = 0;
    CHECK(EVP_CipherUpdate(context_.get(), Raw(out), &size, Raw(bytes), static_cast<int>(bytes.size())) == 1);
    out.resize(static_cast<size_t>(size));
    return out;
  }

 private:
  Context context_;
};

Result<std::unique_ptr<StreamCipher>> MakeCipher(const EVP_CIPHER* cipher, std::string_view key, std::string_view iv,
                                                 CipherDirection direction) {
  EvpCipher::Context context(EVP_CIPHER_CTX_new());
  const int encrypts = direction == CipherDirection::kEncrypt ? 1 : 0;
  if (context == nullptr || EVP_CipherInit_ex(context.get(), cipher, nullptr, Raw(key), Raw(iv), encrypts) != 1) {
    return UnimplementedError("this machine's OpenSSL does not offer the cipher");
  }
  EVP_CIPHER_CTX_set_padding(context.get(), 0);
  return std::unique_ptr<StreamCipher>(std::make_unique<EvpCipher>(std::move(context)));
}

// Seven bytes become the eight of a DES key: seven bits each, the lowest one is for parity and not looked at.
void AppendDesKey(std::string_view seven, std::string* key) {
  uint64_t bits = 0;
  for (const char c : seven) bits = bits << 8 | static_cast<unsigned char>(c);
  for (int shift = 49; shift >= 0; shift -= 7) key->push_back(static_cast<char>((bits >> shift & 0x7f) << 1));
}

}  // namespace

std::string Md5(std::string_view bytes) {
  std::string out(16, '\0');
  unsigned size = 0;
  CHECK(EVP_Digest(bytes.data(), bytes.size(), Raw(out), &size, EVP_md5(), nullptr) == 1);
  return out;
}

std::string HmacMd5(std::string_view key, std::string_view bytes) {
  std::string out(16, '\0');
  unsigned size = 0;
  CHECK(HMAC(EVP_md5(), key.data(), static_cast<int>(key.size()), Raw(bytes), bytes.size(), Raw(out), &size) !=
        nullptr);
  return out;
}

std::string HexOf(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    out.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    out.push_back(kDigits[static_cast<unsigned char>(c) & 15]);
  }
  return out;
}

std::string Base64Of(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(Raw(out), Raw(bytes), static_cast<int>(bytes.size()));
  out.resize(static_cast<size_t>(size));
  return out;
}

std::string RandomBytes(size_t size) {
  std::string out(size, '\0');
  CHECK(RAND_bytes(Raw(out), static_cast<int>(size)) == 1);
  return out;
}

bool EqualSecrets(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<std::unique_ptr<StreamCipher>> MakeAesCtr(std::string_view key, std::string_view iv) {
  const EVP_CIPHER* cipher = key.size() == 16   ? EVP_aes_128_ctr()
                             : key.size() == 24 ? EVP_aes_192_ctr()
                             : key.size() == 32 ? EVP_aes_256_ctr()
                                                : nullptr;
  if (cipher == nullptr || iv.size() != 16) return InvalidArgumentError("an AES key or IV of an odd size");
  return MakeCipher(cipher, key, iv, CipherDirection::kEncrypt);
}

Result<std::unique_ptr<StreamCipher>> MakeDigestTripleDes(std::string_view key, CipherDirection direction) {
  if (key.size() != 16) return InvalidArgumentError("a 3DES key of an odd size");
  std::string keys;
  AppendDesKey(key.substr(0, 7), &keys);
  AppendDesKey(key.substr(7, 7), &keys);
  return MakeCipher(EVP_des_ede_cbc(), keys, key.substr(8), direction);
}

}  // namespace paceline::hdfs
