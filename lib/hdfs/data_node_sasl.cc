#include "lib/hdfs/data_node_sasl.h"

#include <fmt/format.h>

#include "lib/hdfs/packet.h"
#include "lib/hdfs/protected_stream.h"
#include "lib/hdfs/wire_bytes.h"

namespace paceline::hdfs {
namespace {

constexpr uint32_t kMagic = 0xdeadbeef;
constexpr uint32_t kSuccess = 0, kUnknownKey = 1;
constexpr uint32_t kSuiteAesCtr = 2;
constexpr uint16_t kFirstUnprivilegedPort = 1024;
constexpr int64_t kKeySpareMs = 60'000;

// An identifier of newer servers is a message, which begins with a positive byte; older ones write a number of their
// own.
std::string HandshakeSecretOf(const std::string& identifier) {
  wire::BlockTokenSecret secret;
  if (identifier.empty() || static_cast<signed char>(identifier[0]) <= 0 || !ParseMessage(identifier, &secret))
    return "";
  return secret.handshake_secret();
}

Status CheckAnswer(const wire::DataTransferEncryptorMessage& answer) {
  if (answer.status() == kSuccess) return Status();
  const std::string what = answer.status() == kUnknownKey ? "the encryption key is too old" : answer.message();
  return PermissionDeniedError("SASL handshake with the DataNode: " + what);
}

}  // namespace

Result<DataNodeSasl::Options> DataNodeSasl::ReadOptions(const HadoopConfig& config) {
  Options options;
  constexpr const char* kProtection = "dfs.data.transfer.protection";
  ASSIGN_OR_RETURN(options.protection, ParseProtection(kProtection, config.GetOr(kProtection, "")));
  options.offers_aes =
      config.GetOr("dfs.encrypt.data.transfer.cipher.suites", "").find("AES/CTR/NoPadding") != std::string::npos;
  return options;
}

Result<std::unique_ptr<ByteStream>> DataNodeSasl::Protect(std::unique_ptr<ByteStream> stream, const DataNode& node,
                                                          const LocatedBlock& block, Deadline deadline) {
  ASSIGN_OR_RETURN(const std::optional<Login> login, ChooseLogin(node, block, deadline));
  if (!login.has_value()) return stream;
  Result<std::unique_ptr<ByteStream>> made = Handshake(std::move(stream), *login, deadline);
  if (made.status().code() == StatusCode::kPermissionDenied) {
    MutexLock lock(mutex_);
    key_.reset();  // it may be one that the DataNodes have forgotten
  }
  return made;
}

Result<std::optional<DataNodeSasl::Login>> DataNodeSasl::ChooseLogin(const DataNode& node, const LocatedBlock& block,
                                                                     Deadline deadline) {
  ASSIGN_OR_RETURN(const std::optional<DataEncryptionKey> key, EncryptionKey(deadline));
  Login login;
  login.credentials.digest_uri = "hdfs/0";
  if (key.has_value()) {
    login.credentials.user = fmt::format("{} {} {}", key->key_id, key->block_pool_id, Base64Of(key->nonce));
    login.credentials.password = Base64Of(key->key);
    login.allowed = {Qop::kAuthConf};
  } else {
    const bool is_trusted_port = node.transfer_port < kFirstUnprivilegedPort;
    if (options_.protection.empty() || is_trusted_port || block.token.identifier.empty()) return std::optional<Login>();
    login.credentials.user = Base64Of(block.token.identifier);
    login.credentials.password = Base64Of(block.token.password);
    login.allowed = options_.protection;
    if (std::string secret = HandshakeSecretOf(block.token.identifier); !secret.empty()) {
      login.handshake_secret.emplace(std::move(secret), block.block.pool_id);
    }
  }
  login.credentials.authzid = login.credentials.user;
  return std::optional<Login>(std::move(login));
}

Result<std::optional<DataEncryptionKey>> DataNodeSasl::EncryptionKey(Deadline deadline) {
  bool is_asked;
  {
    MutexLock lock(mutex_);
    is_asked = cluster_encrypts_.has_value();
    if (is_asked && !*cluster_encrypts_) return std::optional<DataEncryptionKey>();
    const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.WallNow().time_since_epoch()).count();
    if (key_.has_value() && static_cast<int64_t>(key_->expiry_ms) > now + kKeySpareMs) return key_;
  }
  bool encrypts = true;
  if (!is_asked) {
    ASSIGN_OR_RETURN(const ServerDefaults defaults, namenode_->GetServerDefaults(deadline));
    encrypts = defaults.encrypts_data_transfer;
  }
  std::optional<DataEncryptionKey> key;
  if (encrypts) {
    ASSIGN_OR_RETURN(key, namenode_->GetDataEncryptionKey(deadline));
  }
  MutexLock lock(mutex_);
  cluster_encrypts_ = encrypts;
  key_ = key;
  return key;
}

Result<std::unique_ptr<ByteStream>> DataNodeSasl::Handshake(std::unique_ptr<ByteStream> stream, const Login& login,
                                                            Deadline deadline) {
  // Byte for byte: what follows the last message belongs to the protected stream.
  BufferedReader reader(*stream, 1);
  const auto receive = [&](wire::DataTransferEncryptorMessage* answer) -> Status {
    std::string bytes;
    RETURN_IF_ERROR(reader.ReadDelimited(&bytes, kMaxAnswerBytes, deadline));
    if (!ParseMessage(bytes, answer)) return DataLossError("SASL handshake: a malformed answer");
    return CheckAnswer(*answer);
  };
  wire::DataTransferEncryptorMessage hello, challenge, response, last;
  hello.set_status(kSuccess);
  hello.set_payload("");
  if (login.handshake_secret.has_value()) {
    hello.mutable_handshake_secret()->set_secret(login.handshake_secret->first);
    hello.mutable_handshake_secret()->set_pool_id(login.handshake_secret->second);
  }
  std::string bytes;
  AppendBigEndian(kMagic, 4, &bytes);
  AppendDelimited(hello, &bytes);
  RETURN_IF_ERROR(stream->Write(bytes, {}, deadline));
  RETURN_IF_ERROR(receive(&challenge));

  DigestMd5Client client(login.credentials, login.allowed);
  ASSIGN_OR_RETURN(const std::string answer, client.Respond(challenge.payload(), Base64Of(RandomBytes(30))));
  response.set_status(kSuccess);
  response.set_payload(answer);
  if (client.qop() == Qop::kAuthConf && options_.offers_aes) response.add_cipher_options()->set_suite(kSuiteAesCtr);
  bytes.clear();
  AppendDelimited(response, &bytes);
  RETURN_IF_ERROR(stream->Write(bytes, {}, deadline));
  RETURN_IF_ERROR(receive(&last));
  RETURN_IF_ERROR(client.CheckFinal(last.payload()));

  ASSIGN_OR_RETURN(std::unique_ptr<SaslProtection> protection, client.MakeProtection());
  if (protection == nullptr) return stream;
  if (last.cipher_options_size() == 0) return MakeSaslStream(std::move(stream), std::move(protection));
  const wire::CipherOption& option = last.cipher_options(0);
  if (option.suite() != kSuiteAesCtr)
    return UnimplementedError(fmt::format("cipher suite {} of a DataNode", option.suite()));
  // The keys come wrapped by the layer that they replace, the one for our bytes first.
  ASSIGN_OR_RETURN(const std::string out_key, protection->Unwrap(option.in_key()));
  ASSIGN_OR_RETURN(const std::string in_key, protection->Unwrap(option.out_key()));
  ASSIGN_OR_RETURN(std::unique_ptr<StreamCipher> out, MakeAesCtr(out_key, option.in_iv()));
  ASSIGN_OR_RETURN(std::unique_ptr<StreamCipher> in, MakeAesCtr(in_key, option.out_iv()));
  return MakeAesStream(std::move(stream), std::move(out), std::move(in));
}

}  // namespace paceline::hdfs
