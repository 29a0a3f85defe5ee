#include "lib/net/server_tls_context.h"

#include <openssl/err.h>

#include "lib/net/openssl_handles.h"

namespace paceline::net {
namespace {

Status TrustClients(SSL_CTX* context, const std::string& client_ca) {
  ASSIGN_OR_RETURN(const std::vector<X509Ptr> cas, ParsePemCertificates(client_ca).Annotate("client CA"));
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  for (const X509Ptr& ca : cas) {
    X509_STORE_add_cert(store, ca.get());
    SSL_CTX_add_client_CA(context, ca.get());
  }
  X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // Resumed sessions would skip the verification unless they are bound to this use of the context.
  const unsigned char session_id[] = "paceline";
  SSL_CTX_set_session_id_context(context, session_id, sizeof(session_id) - 1);
  return Status();
}

Result<std::shared_ptr<SSL_CTX>> MakeContext(const TlsPair& pair, const std::string& client_ca) {
  ERR_clear_error();
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (context == nullptr) return InternalError("TLS context: " + TakeOpensslError());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  ASSIGN_OR_RETURN(const std::vector<X509Ptr> chain, ParsePemCertificates(pair.certificate_chain));
  ASSIGN_OR_RETURN(const EvpPkeyPtr key, ParsePemKey(pair.private_key));
  bool ok = SSL_CTX_use_certificate(context.get(), chain.front().get()) == 1;
  for (size_t i = 1; i < chain.size(); ++i) ok = ok && SSL_CTX_add1_chain_cert(context.get(), chain[i].get()) == 1;
  ok = ok && SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1 && SSL_CTX_check_private_key(context.get()) == 1;
  if (!ok) return InvalidArgumentError("TLS pair: " + TakeOpensslError());
  if (!client_ca.empty()) RETURN_IF_ERROR(TrustClients(context.get(), client_ca));
  ERR_clear_error();
  return context;
}

}  // namespace

ServerTlsContext::ServerTlsContext(ServerTls options, const Clock& clock, Logger& log)
    : options_(std::move(options)), clock_(clock), log_(log) {}

ServerTlsContext::~ServerTlsContext() = default;  // jthread asks the reloader to stop and joins it

Result<std::unique_ptr<ServerTlsContext>> ServerTlsContext::Start(ServerTls options, const Clock& clock, Logger& log) {
  if (options.load == nullptr) return InvalidArgumentError("TLS needs a function that loads the pair");
  std::unique_ptr<ServerTlsContext> context(new ServerTlsContext(std::move(options), clock, log));
  RETURN_IF_ERROR(context->Reload());
  context->reloader_ =
      std::jthread([self = context.get()](std::stop_token stop) { self->RunReloader(std::move(stop)); });
  return context;
}

std::shared_ptr<ssl_ctx_st> ServerTlsContext::Current() const {
  MutexLock lock(mutex_);
  return context_;
}

Status ServerTlsContext::Reload() {
  ASSIGN_OR_RETURN(TlsPair pair, options_.load().Annotate("load the TLS pair"));
  if (pair.certificate_chain == seen_.certificate_chain && pair.private_key == seen_.private_key) return Status();
  seen_ = pair;
  ASSIGN_OR_RETURN(std::shared_ptr<SSL_CTX> context, MakeContext(pair, options_.client_ca));
  MutexLock lock(mutex_);
  context_ = std::move(context);
  return Status();
}

void ServerTlsContext::RunReloader(std::stop_token stop) {
  std::string last_failure;
  while (clock_.SleepFor(options_.reload_period, stop)) {
    const Status status = Reload();
    // The same failure every period is one line, not thousands.
    if (!status.ok() && status.message() != last_failure) {
      log_.Warn("TLS pair refused, the last good one stays in use", {{"error", status}});
    }
    last_failure = status.message();
  }
}

}  // namespace paceline::net
