#include "lib/hdfs/digest_md5.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/hdfs/sasl_crypto.h"
#include "lib/hdfs/wire_bytes.h"

namespace paceline::hdfs {
namespace {

constexpr size_t kMacBytes = 10;
constexpr size_t kTrailerBytes = 6;  // type 1 and the sequence number
constexpr size_t kCipherBlockBytes = 8;

std::string SequenceBytes(uint32_t sequence) {
  std::string bytes;
  AppendBigEndian(sequence, 4, &bytes);
  return bytes;
}

// One direction of a protected connection.
struct Direction {
  std::string signing_key;
  std::unique_ptr<StreamCipher> cipher;  // null: integrity only
  uint32_t sequence = 0;
};

class DigestProtection final : public SaslProtection {
 public:
  DigestProtection(Direction to_server, Direction to_client) : out_(std::move(to_server)), in_(std::move(to_client)) {}

  Result<std::string> Wrap(std::string_view plain) override {
    const std::string sequence = SequenceBytes(out_.sequence++);
    std::string inner(plain);
    const std::string mac = HmacMd5(out_.signing_key, sequence + inner).substr(0, kMacBytes);
    if (out_.cipher != nullptr) {
      const size_t pad = kCipherBlockBytes - (inner.size() + kMacBytes) % kCipherBlockBytes;
      inner.append(pad, static_cast<char>(pad));
    }
    inner += mac;
    if (out_.cipher != nullptr) inner = out_.cipher->Apply(inner);
    return inner.append("\0\1", 2).append(sequence);
  }

  Result<std::string> Unwrap(std::string_view wrapped) override {
    if (wrapped.size() < kMacBytes + kTrailerBytes) return DataLossError("a protected message is cut short");
    const std::string sequence = SequenceBytes(in_.sequence++);
    if (wrapped.substr(wrapped.size() - 4) != sequence) return DataLossError("a protected message is out of order");
    wrapped.remove_suffix(kTrailerBytes);
    std::string inner(wrapped);
    if (in_.cipher != nullptr) {
      if (inner.size() % kCipherBlockBytes != 0) return DataLossError("a protected message is cut short");
      inner = in_.cipher->Apply(inner);
    }
    const std::string mac = inner.substr(inner.size() - kMacBytes);
    inner.resize(inner.size() - kMacBytes);
    if (in_.cipher != nullptr) {
      const size_t pad = inner.empty() ? 0 : static_cast<unsigned char>(inner.back());
      if (pad == 0 || pad > kCipherBlockBytes || pad > inner.size())
        return DataLossError("a protected message is malformed");
      inner.resize(inner.size() - pad);
    }
    if (!EqualSecrets(HmacMd5(in_.signing_key, sequence + inner).substr(0, kMacBytes), mac)) {
      return DataLossError("a protected message was changed on its way");
    }
    return inner;
  }

 private:
  Direction out_, in_;
};

}  // namespace

std::string_view QopName(Qop qop) {
  return qop == Qop::kAuth ? "auth" : qop == Qop::kAuthInt ? "auth-int" : "auth-conf";
}

Result<std::vector<Qop>> ParseProtection(const std::string& key, const std::string& value) {
  std::vector<Qop> levels;
  std::string_view rest = value;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    std::string_view word = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    if (word == "authentication")
      levels.push_back(Qop::kAuth);
    else if (word == "integrity")
      levels.push_back(Qop::kAuthInt);
    else if (word == "privacy")
      levels.push_back(Qop::kAuthConf);
    else
      return InvalidArgumentError(fmt::format("{}: \"{}\" is none of authentication, integrity, privacy", key, word));
  }
  return levels;
}

Result<std::vector<std::pair<std::string, std::string>>> ParseDirectives(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> directives;
  const auto malformed = [] { return DataLossError("a DIGEST-MD5 challenge is malformed"); };
  while (!text.empty()) {
    if (text.front() == ',' || text.front() == ' ') {
      text.remove_prefix(1);
      continue;
    }
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) return malformed();
    std::string key(text.substr(0, equals)), value;
    text.remove_prefix(equals + 1);
    if (text.starts_with('"')) {
      size_t at = 1;
      for (; at < text.size() && text[at] != '"'; ++at) {
        if (text[at] == '\\' && ++at == text.size()) return malformed();
        value.push_back(text[at]);
      }
      if (at >= text.size()) return malformed();
      text.remove_prefix(at + 1);
    } else {
      const size_t comma = text.find(',');
      value = text.substr(0, comma);
      text = comma == std::string_view::npos ? "" : text.substr(comma);
    }
    directives.emplace_back(std::move(key), std::move(value));
  }
  return directives;
}

DigestMd5Client::DigestMd5Client(Credentials credentials, std::vector<Qop> allowed)
    : credentials_(std::move(credentials)), allowed_(std::move(allowed)) {}

Result<std::string> DigestMd5Client::Respond(std::string_view challenge, std::string cnonce) {
  ASSIGN_OR_RETURN(const auto directives, ParseDirectives(challenge));
  std::string offered = "auth", ciphers;
  realm_.clear();
  nonce_.clear();
  for (const auto& [key, value] : directives) {
    if (key == "realm") realm_ = value;
    if (key == "nonce") nonce_ = value;
    if (key == "qop") offered = value;
    if (key == "cipher") ciphers = value;
  }
  if (nonce_.empty()) return DataLossError("a DIGEST-MD5 challenge without a nonce");
  cnonce_ = std::move(cnonce);
  const auto offers = [](const std::string& list, std::string_view word) {
    return ("," + list + ",").find("," + std::string(word) + ",") != std::string::npos;
  };
  bool has_level = false;
  for (const Qop qop : {Qop::kAuth, Qop::kAuthInt, Qop::kAuthConf}) {
    if (std::find(allowed_.begin(), allowed_.end(), qop) == allowed_.end() || !offers(offered, QopName(qop))) continue;
    qop_ = qop;  // the strongest of those that both sides take
    has_level = true;
  }
  if (!has_level)
    return PermissionDeniedError("the server offers protection \"" + offered + "\", which the configuration does not");
  if (qop_ == Qop::kAuthConf && !offers(ciphers, "3des")) {
    return PermissionDeniedError("the server offers the ciphers \"" + ciphers + "\", none of which is 3des");
  }
  std::string a1 = Md5(credentials_.user + ":" + realm_ + ":" + credentials_.password) + ":" + nonce_ + ":" + cnonce_;
  if (!credentials_.authzid.empty()) a1 += ":" + credentials_.authzid;
  ha1_ = Md5(a1);
  std::string response = fmt::format(
      "charset=utf-8,username=\"{}\",realm=\"{}\",nonce=\"{}\",nc=00000001,cnonce=\"{}\",digest-uri=\"{}\","
      "maxbuf=65536,response={},qop={}",
      credentials_.user, realm_, nonce_, cnonce_, credentials_.digest_uri, ResponseFor("AUTHENTICATE"), QopName(qop_));
  if (qop_ == Qop::kAuthConf) response += ",cipher=\"3des\"";
  if (!credentials_.authzid.empty()) response += ",authzid=\"" + credentials_.authzid + "\"";
  return response;
}

std::string DigestMd5Client::ResponseFor(std::string_view method) const {
  std::string a2 = fmt::format("{}:{}", method, credentials_.digest_uri);
  if (qop_ != Qop::kAuth) a2 += ":" + std::string(32, '0');
  return HexOf(
      Md5(fmt::format("{}:{}:00000001:{}:{}:{}", HexOf(ha1_), nonce_, cnonce_, QopName(qop_), HexOf(Md5(a2)))));
}

Status DigestMd5Client::CheckFinal(std::string_view payload) const {
  ASSIGN_OR_RETURN(const auto directives, ParseDirectives(payload));
  for (const auto& [key, value] : directives) {
    if (key == "rspauth" && EqualSecrets(value, ResponseFor(""))) return Status();
  }
  return PermissionDeniedError("the server did not prove that it knows the token's password");
}

Result<std::unique_ptr<SaslProtection>> DigestMd5Client::MakeProtection() const {
  if (qop_ == Qop::kAuth) return std::unique_ptr<SaslProtection>();
  Direction out, in;
  out.signing_key = Md5(ha1_ + "Digest session key to client-to-server signing key magic constant");
  in.signing_key = Md5(ha1_ + "Digest session key to server-to-client signing key magic constant");
  if (qop_ == Qop::kAuthConf) {
    const std::string to_server = Md5(ha1_ + "Digest H(A1) to client-to-server sealing key magic constant");
    const std::string to_client = Md5(ha1_ + "Digest H(A1) to server-to-client sealing key magic constant");
    ASSIGN_OR_RETURN(out.cipher, MakeDigestTripleDes(to_server, CipherDirection::kEncrypt));
    ASSIGN_OR_RETURN(in.cipher, MakeDigestTripleDes(to_client, CipherDirection::kDecrypt));
  }
  return std::unique_ptr<SaslProtection>(std::make_unique<DigestProtection>(std::move(out), std::move(in)));
}

}  // namespace paceline::hdfs
