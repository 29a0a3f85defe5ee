// The cryptography that SASL and the data port need, by OpenSSL: small and named by what it does, so that nothing else
// of lib/hdfs knows OpenSSL. Functions are pure; the ciphers are streams and belong to one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace paceline::hdfs {

std::string Md5(std::string_view bytes);
std::string HmacMd5(std::string_view key, std::string_view bytes);
std::string HexOf(std::string_view bytes);  // lower case
std::string Base64Of(std::string_view bytes);
std::string RandomBytes(size_t size);
// Takes as long whatever the difference is.
bool EqualSecrets(std::string_view a, std::string_view b);

// A cipher whose state goes on from one call to the next.
class StreamCipher {
 public:
  virtual ~StreamCipher() = default;
  // As many bytes out as in. For a block cipher `bytes` must be whole blocks.
  virtual std::string Apply(std::string_view bytes) = 0;
};

enum class CipherDirection { kEncrypt, kDecrypt };
// `key` of 16, 24 or 32 bytes, `iv` of 16: counter mode, both directions are alike. kInvalidArgument for other sizes.
Result<std::unique_ptr<StreamCipher>> MakeAesCtr(std::string_view key, std::string_view iv);
// Two-key 3DES in CBC mode, as DIGEST-MD5 derives it from `key`: the keys are its first 14 bytes, the IV its last 8.
Result<std::unique_ptr<StreamCipher>> MakeDigestTripleDes(std::string_view key, CipherDirection direction);

}  // namespace paceline::hdfs
