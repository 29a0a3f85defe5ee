// SHA-256 digests: the names of blobs, chunks and layers. Binary inside, "sha256:<64 hex>" at the edges; no other
// algorithm is taken, because a digest becomes part of paths and tags.
//
// Callers: everything in lib/blocks. Digest is a plain value; Sha256 belongs to one thread; the functions are pure.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace paceline::blocks {

struct Digest {
  std::array<uint8_t, 32> bytes{};

  // 64 lower-case hexadecimal digits.
  std::string Hex() const;
  // "sha256:" in front of them.
  std::string ToString() const { return "sha256:" + Hex(); }
  std::string_view View() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

  friend auto operator<=>(const Digest&, const Digest&) = default;
};

// "sha256:" and 64 lower-case hexadecimal digits; kInvalidArgument for anything else.
Result<Digest> ParseDigest(std::string_view text);
// The 32 bytes at `bytes`.
Digest DigestFromBytes(const void* bytes);

// For unordered containers: the digest is as good as random already.
struct DigestHash {
  size_t operator()(const Digest& digest) const {
    size_t value;
    std::memcpy(&value, digest.bytes.data(), sizeof value);
    return value;
  }
};

// A running hash, with the machine's instructions for it (OpenSSL).
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(std::string_view bytes);
  // The digest of all that was given; then starts anew.
  Digest Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

Digest Sha256Of(std::string_view bytes);

// CRC32C (Castagnoli), reflected, complemented before and after. `seed` is the CRC of the bytes before.
uint32_t Crc32c(std::string_view bytes, uint32_t seed = 0);

}  // namespace paceline::blocks
