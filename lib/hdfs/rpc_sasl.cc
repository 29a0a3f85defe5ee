#include "lib/hdfs/rpc_sasl.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include "lib/base/filesystem.h"
#include "lib/hdfs/gss_client.h"
#include "lib/hdfs/rpc_frame.h"
#include "lib/hdfs/sasl_crypto.h"
#include "lib/hdfs/token_file.h"
#include "lib/hdfs/wire_bytes.h"

namespace paceline::hdfs {
namespace {

constexpr size_t kMaxTokenFileBytes = 4 << 20;
constexpr uint32_t kMaxNegotiationBytes = 1 << 20;
constexpr int kMaxSteps = 10;

std::string WithHost(std::string principal, const std::string& host) {
  constexpr std::string_view kHost = "_HOST";
  if (const size_t at = principal.find(kHost); at != std::string::npos) principal.replace(at, kHost.size(), host);
  return principal;
}

// One negotiation on one new connection.
class Negotiation {
 public:
  Negotiation(ByteStream& stream, Deadline deadline) : stream_(stream), deadline_(deadline) {}

  Status Send(uint32_t state, const std::string& token, const wire::RpcSasl::Auth* auth) {
    wire::RpcSasl message;
    message.set_state(state);
    if (state != kSaslNegotiate) message.set_token(token);
    if (auth != nullptr) {
      *message.add_auths() = *auth;
      message.mutable_auths(0)->clear_challenge();
    }
    return stream_.Write(RpcSaslFrame(message), deadline_);
  }

  Result<wire::RpcSasl> Receive() {
    char length[4];
    RETURN_IF_ERROR(stream_.ReadFull(length, sizeof length, deadline_));
    RETURN_IF_ERROR(CheckFirstBytes({length, sizeof length}));
    const uint32_t size = LoadBigEndian32(length);
    if (size > kMaxNegotiationBytes) return DataLossError("SASL: an answer that is far too long");
    std::string frame(size, '\0');
    RETURN_IF_ERROR(stream_.ReadFull(frame.data(), size, deadline_));
    ASSIGN_OR_RETURN(const RpcAnswer answer, ParseRpcAnswer(frame));
    if (answer.header.status() != 0) {
      const std::string& text = answer.header.error_message();
      return PermissionDeniedError("SASL: " + text.substr(0, text.find('\n')));
    }
    wire::RpcSasl message;
    RETURN_IF_ERROR(DelimitedReader(answer.rest).Next("SASL answer", &message));
    return message;
  }

 private:
  ByteStream& stream_;
  const Deadline deadline_;
};

class SaslRpcSecurity final : public RpcSecurity {
 public:
  explicit SaslRpcSecurity(RpcSaslOptions options) : options_(std::move(options)) {}

  Result<std::unique_ptr<SaslProtection>> Negotiate(ByteStream& stream, const std::string& host,
                                                    Deadline deadline) override {
    Negotiation negotiation(stream, deadline);
    RETURN_IF_ERROR(negotiation.Send(kSaslNegotiate, "", nullptr));
    ASSIGN_OR_RETURN(const wire::RpcSasl offer, negotiation.Receive());
    ASSIGN_OR_RETURN(const std::optional<SecurityToken> token, ReadToken());
    const wire::RpcSasl::Auth* kerberos = nullptr;
    for (const wire::RpcSasl::Auth& auth : offer.auths()) {
      if (auth.method() == "TOKEN" && auth.mechanism() == "DIGEST-MD5" && token.has_value()) {
        return ByToken(negotiation, auth, *token);
      }
      if (auth.method() == "KERBEROS" && auth.mechanism() == "GSSAPI") kerberos = &auth;
    }
    if (kerberos != nullptr) return ByKerberos(negotiation, *kerberos, host);
    return PermissionDeniedError(
        "SASL: the NameNode offers no way of proof that this client has; the configuration says kerberos");
  }

  // A token and a ticket both name their user.
  std::string ContextUser() const override { return ""; }

  std::unique_ptr<RpcSecurity> WithToken(const SecurityToken& token) const override {
    RpcSaslOptions options = options_;
    options.token = token;
    return std::make_unique<SaslRpcSecurity>(std::move(options));
  }

 private:
  Result<std::optional<SecurityToken>> ReadToken() const {
    if (options_.token.has_value() || options_.token_file.empty()) return options_.token;
    Result<std::string> bytes = RealFileSystem().ReadFile(options_.token_file, kMaxTokenFileBytes);
    // Permission denied, whatever it is: to ask again and again would not make the file better.
    if (!bytes.ok()) return PermissionDeniedError("token file: " + bytes.status().message());
    Result<std::vector<SecurityToken>> tokens = ParseTokenFile(*bytes);
    if (!tokens.ok()) return PermissionDeniedError(options_.token_file + ": " + tokens.status().message());
    return FindDelegationToken(*tokens, options_.services);
  }

  Result<std::unique_ptr<SaslProtection>> ByToken(Negotiation& negotiation, const wire::RpcSasl::Auth& auth,
                                                  const SecurityToken& token) {
    DigestMd5Client client({.user = Base64Of(token.identifier),
                            .password = Base64Of(token.password),
                            .digest_uri = auth.protocol() + "/" + auth.server_id()},
                           options_.allowed);
    ASSIGN_OR_RETURN(const std::string response, client.Respond(auth.challenge(), Base64Of(RandomBytes(30))));
    RETURN_IF_ERROR(negotiation.Send(kSaslInitiate, response, &auth));
    ASSIGN_OR_RETURN(const wire::RpcSasl answer, negotiation.Receive());
    RETURN_IF_ERROR(client.CheckFinal(answer.token()));
    if (answer.state() != kSaslSuccess) {
      RETURN_IF_ERROR(negotiation.Send(kSaslResponse, "", nullptr));
      ASSIGN_OR_RETURN(const wire::RpcSasl last, negotiation.Receive());
      if (last.state() != kSaslSuccess) return PermissionDeniedError("SASL: the NameNode does not come to an end");
    }
    return client.MakeProtection();
  }

  Result<std::unique_ptr<SaslProtection>> ByKerberos(Negotiation& negotiation, const wire::RpcSasl::Auth& auth,
                                                     const std::string& host) {
    const std::string named = auth.protocol() + "/" + auth.server_id();
    if (!IsExpectedPrincipal(options_, host, named)) {
      return PermissionDeniedError(
          fmt::format("SASL: the server calls itself {}, dfs.namenode.kerberos.principal says {}", named,
                      WithHost(options_.principal, host)));
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<GssClient> client, GssClient::Make(named, options_.allowed));
    ASSIGN_OR_RETURN(std::string token, client->Step(""));
    RETURN_IF_ERROR(negotiation.Send(kSaslInitiate, token, &auth));
    for (int step = 0; step < kMaxSteps; ++step) {
      ASSIGN_OR_RETURN(const wire::RpcSasl answer, negotiation.Receive());
      if (answer.state() == kSaslSuccess) return client->TakeProtection();
      if (answer.state() != kSaslChallenge) break;
      ASSIGN_OR_RETURN(token, client->Step(answer.token()));
      RETURN_IF_ERROR(negotiation.Send(kSaslResponse, token, nullptr));
    }
    return PermissionDeniedError("SASL: the NameNode does not come to an end");
  }

  const RpcSaslOptions options_;
};

}  // namespace

bool IsExpectedPrincipal(const RpcSaslOptions& options, const std::string& host, const std::string& named) {
  if (!options.principal_pattern.empty()) {
    // The pattern may carry a realm, which the server does not name here.
    const std::string pattern = options.principal_pattern.substr(0, options.principal_pattern.find('@'));
    return fnmatch(pattern.c_str(), named.c_str(), 0) == 0;
  }
  const std::string expected = WithHost(options.principal, host);
  return expected.substr(0, expected.find('@')) == named;
}

Result<std::unique_ptr<RpcSecurity>> MakeRpcSecurity(const HadoopConfig& config, const NameService& service) {
  const std::string method = config.GetOr("hadoop.security.authentication", "simple");
  if (method == "simple") return std::unique_ptr<RpcSecurity>();
  if (method != "kerberos")
    return InvalidArgumentError("hadoop.security.authentication: \"" + method + "\" is neither simple nor kerberos");
  RpcSaslOptions options;
  options.principal = config.GetOr("dfs.namenode.kerberos.principal", "");
  options.principal_pattern = config.GetOr("dfs.namenode.kerberos.principal.pattern", "");
  ASSIGN_OR_RETURN(options.allowed,
                   ParseProtection("hadoop.rpc.protection", config.GetOr("hadoop.rpc.protection", "authentication")));
  options.token_file = DefaultTokenFile();
  if (!service.name.empty()) options.services.push_back("ha-hdfs:" + service.name);
  for (const NameNodeAddress& address : service.namenodes) {
    options.services.push_back(fmt::format("{}:{}", address.host, address.port));
  }
  return std::unique_ptr<RpcSecurity>(std::make_unique<SaslRpcSecurity>(std::move(options)));
}

}  // namespace paceline::hdfs
