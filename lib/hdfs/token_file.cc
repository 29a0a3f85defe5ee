#include "lib/hdfs/token_file.h"

#include "lib/hdfs/proto/rpc.pb.h"
#include "lib/hdfs/wire_bytes.h"
#include "lib/hdfs/wire_convert.h"

namespace paceline::hdfs {
namespace {

constexpr std::string_view kTokenMagic = "HDTS";
constexpr char kWritableFormat = 0, kProtobufFormat = 1;

// Java's Writable encoding: a number is one byte, or a byte that says sign and size and then that many bytes.
class WritableReader {
 public:
  explicit WritableReader(std::string_view bytes) : rest_(bytes) {}

  bool ReadNumber(int64_t* value) {
    if (rest_.empty()) return false;
    int first = static_cast<unsigned char>(rest_[0]);
    if (first > 127) first -= 256;  // a byte of Java has a sign
    rest_.remove_prefix(1);
    if (first >= -112) {
      *value = first;
      return true;
    }
    const bool is_negative = first < -120;
    const auto size = static_cast<size_t>(is_negative ? -(first + 120) : -(first + 112));
    if (rest_.size() < size) return false;
    uint64_t bits = 0;
    for (size_t i = 0; i < size; ++i) bits = bits << 8 | static_cast<unsigned char>(rest_[i]);
    rest_.remove_prefix(size);
    *value = static_cast<int64_t>(is_negative ? ~bits : bits);
    return true;
  }

  bool ReadBytes(std::string* bytes) {
    int64_t size = 0;
    if (!ReadNumber(&size) || size < 0 || static_cast<uint64_t>(size) > rest_.size()) return false;
    *bytes = rest_.substr(0, static_cast<size_t>(size));
    rest_.remove_prefix(static_cast<size_t>(size));
    return true;
  }

 private:
  std::string_view rest_;
};

}  // namespace

Result<std::vector<SecurityToken>> ParseTokenFile(std::string_view bytes) {
  const auto malformed = [] { return DataLossError("the token file is malformed"); };
  if (!bytes.starts_with(kTokenMagic) || bytes.size() < kTokenMagic.size() + 1) return malformed();
  const char format = bytes[kTokenMagic.size()];
  bytes.remove_prefix(kTokenMagic.size() + 1);
  std::vector<SecurityToken> tokens;
  if (format == kProtobufFormat) {
    wire::Credentials credentials;
    RETURN_IF_ERROR(DelimitedReader(bytes).Next("token file", &credentials));
    for (const wire::CredentialsKv& entry : credentials.tokens()) {
      if (entry.has_token()) tokens.push_back(FromWire(entry.token()));
    }
    return tokens;
  }
  if (format != kWritableFormat) return malformed();
  WritableReader reader(bytes);
  int64_t count = 0;
  if (!reader.ReadNumber(&count)) return malformed();
  for (int64_t i = 0; i < count; ++i) {
    std::string alias;
    SecurityToken token;
    if (!reader.ReadBytes(&alias) || !reader.ReadBytes(&token.identifier) || !reader.ReadBytes(&token.password) ||
        !reader.ReadBytes(&token.kind) || !reader.ReadBytes(&token.service)) {
      return malformed();
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::optional<SecurityToken> FindDelegationToken(const std::vector<SecurityToken>& tokens,
                                                 const std::vector<std::string>& services) {
  for (const std::string& service : services) {
    for (const SecurityToken& token : tokens) {
      if (token.kind == "HDFS_DELEGATION_TOKEN" && token.service == service) return token;
    }
  }
  return std::nullopt;
}

}  // namespace paceline::hdfs
