#include "lib/blocks/format/digest.h"

#include <isa-l/crc.h>
#include <openssl/evp.h>

#include "lib/base/check.h"

namespace paceline::blocks {
namespace {

constexpr std::string_view kPrefix = "sha256:";
constexpr std::string_view kHexDigits = "0123456789abcdef";

}  // namespace

std::string Digest::Hex() const {
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const uint8_t byte : bytes) {
    hex += kHexDigits[byte >> 4];
    hex += kHexDigits[byte & 15];
  }
  return hex;
}

Result<Digest> ParseDigest(std::string_view text) {
  Digest digest;
  const bool has_shape = text.starts_with(kPrefix) && text.size() == kPrefix.size() + 2 * digest.bytes.size();
  if (!has_shape || text.find_first_not_of(kHexDigits, kPrefix.size()) != std::string_view::npos) {
    return InvalidArgumentError("\"" + std::string(text.substr(0, 100)) +
                                "\" is no digest: sha256: and 64 lower-case hexadecimal digits are");
  }
  const std::string_view hex = text.substr(kPrefix.size());
  for (size_t i = 0; i < digest.bytes.size(); ++i) {
    digest.bytes[i] = static_cast<uint8_t>(kHexDigits.find(hex[2 * i]) << 4 | kHexDigits.find(hex[2 * i + 1]));
  }
  return digest;
}

Digest DigestFromBytes(const void* bytes) {
  Digest digest;
  std::memcpy(digest.bytes.data(), bytes, digest.bytes.size());
  return digest;
}

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

// OpenSSL's digests fail only for want of memory or of the algorithm, neither of which a caller could mend.
Sha256::Sha256() : context_(std::make_unique<Context>()) {
  CHECK(context_->evp != nullptr && EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(std::string_view bytes) { CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1); }

Digest Sha256::Finish() {
  Digest digest;
  CHECK(EVP_DigestFinal_ex(context_->evp, digest.bytes.data(), nullptr) == 1);
  CHECK(EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1);
  return digest;
}

Digest Sha256Of(std::string_view bytes) {
  Digest digest;
  CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.bytes.data(), nullptr, EVP_sha256(), nullptr) == 1);
  return digest;
}

uint32_t Crc32c(std::string_view bytes, uint32_t seed) {
  uint32_t crc = ~seed;
  // ISA-L's length is an int.
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, 1U << 30);
    crc = crc32_iscsi(reinterpret_cast<unsigned char*>(const_cast<char*>(piece.data())), static_cast<int>(piece.size()),
                      crc);
    bytes.remove_prefix(piece.size());
  }
  return ~crc;
}

}  // namespace paceline::blocks
