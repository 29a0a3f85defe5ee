#include "lib/net/client_tls_cache.h"

#include <openssl/err.h>

#include "lib/net/openssl_handles.h"
#include "lib/net/url.h"

namespace paceline::net {
namespace {

struct PemTexts {
  std::string ca, certificate, key;
  bool operator==(const PemTexts&) const = default;
};

Status ReadText(const std::function<Result<std::string>()>& read, std::string_view what, std::string* out) {
  if (read == nullptr) return Status();
  Result<std::string> text = read();
  if (!text.ok()) return text.status().Annotate(what);
  *out = *std::move(text);
  return Status();
}

Result<X509StorePtr> MakeStore(bool has_ca, const std::string& ca_pem) {
  X509StorePtr store(X509_STORE_new());
  if (!has_ca) {
    X509_STORE_set_default_paths(store.get());
    ERR_clear_error();
    return store;
  }
  ASSIGN_OR_RETURN(std::vector<X509Ptr> certificates, ParsePemCertificates(ca_pem));
  for (const X509Ptr& certificate : certificates) X509_STORE_add_cert(store.get(), certificate.get());
  // Whatever the user put into the bundle is trusted, also an intermediate without its root, as Kubernetes' clients do.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN);
  ERR_clear_error();
  return store;
}

}  // namespace

struct ClientTlsCache::Material {
  PemTexts pem;
  X509StorePtr store;
  std::vector<X509Ptr> certificates;  // leaf first; empty without a client certificate
  EvpPkeyPtr key;
  std::shared_ptr<SSL_CTX> context;  // made from the rest, for connections of our own
};

ClientTlsCache::ClientTlsCache(ClientTls options, const std::string& host)
    : options_(std::move(options)), verified_name_(options_.server_name.empty() ? host : options_.server_name) {}

Result<std::shared_ptr<const ClientTlsCache::Material>> ClientTlsCache::Current() {
  std::shared_ptr<const Material> last_good;
  {
    MutexLock lock(mutex_);
    last_good = last_good_;
  }
  const auto load = [&]() -> Result<std::shared_ptr<const Material>> {
    PemTexts pem;
    RETURN_IF_ERROR(ReadText(options_.ca, "CA certificate", &pem.ca));
    RETURN_IF_ERROR(ReadText(options_.client_certificate, "client certificate", &pem.certificate));
    RETURN_IF_ERROR(ReadText(options_.client_key, "client key", &pem.key));
    if (last_good != nullptr && last_good->pem == pem) return last_good;

    auto material = std::make_shared<Material>();
    ASSIGN_OR_RETURN(material->store, MakeStore(options_.ca != nullptr, pem.ca).Annotate("CA certificate"));
    if (options_.client_certificate != nullptr) {
      ASSIGN_OR_RETURN(material->certificates, ParsePemCertificates(pem.certificate).Annotate("client certificate"));
      ASSIGN_OR_RETURN(material->key, ParsePemKey(pem.key).Annotate("client key"));
      if (X509_check_private_key(material->certificates.front().get(), material->key.get()) != 1) {
        ERR_clear_error();
        return InvalidArgumentError("client key: it does not belong to the client certificate");
      }
    }
    material->pem = std::move(pem);
    material->context = std::shared_ptr<SSL_CTX>(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
    if (material->context == nullptr) return InternalError("TLS context: " + TakeOpensslError());
    RETURN_IF_ERROR(Apply(material->context.get(), *material));
    // Fewer system calls on long bodies: one read takes several records (16 KiB each) from the socket.
    SSL_CTX_set_read_ahead(material->context.get(), 1);
    SSL_CTX_set_default_read_buffer_len(material->context.get(), 128 * 1024);
    return std::shared_ptr<const Material>(std::move(material));
  };
  Result<std::shared_ptr<const Material>> fresh = load();
  if (!fresh.ok()) return last_good != nullptr ? last_good : fresh;
  MutexLock lock(mutex_);
  last_good_ = *fresh;
  return fresh;
}

Status ClientTlsCache::Apply(ssl_ctx_st* context, const Material& material) const {
  ERR_clear_error();
  SSL_CTX_set1_cert_store(context, material.store.get());
  bool ok = SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1;
  SSL_CTX_set_verify(context, options_.skip_verification ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  X509_VERIFY_PARAM* parameters = SSL_CTX_get0_param(context);
  if (IsIpLiteral(verified_name_)) {
    ok = ok && X509_VERIFY_PARAM_set1_ip_asc(parameters, verified_name_.c_str()) == 1;
  } else {
    X509_VERIFY_PARAM_set_hostflags(parameters,
                                    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    ok = ok && X509_VERIFY_PARAM_set1_host(parameters, verified_name_.data(), verified_name_.size()) == 1;
  }
  if (!material.certificates.empty()) {
    ok = ok && SSL_CTX_use_certificate(context, material.certificates.front().get()) == 1;
    for (size_t i = 1; i < material.certificates.size(); ++i) {
      ok = ok && SSL_CTX_add1_chain_cert(context, material.certificates[i].get()) == 1;
    }
    ok = ok && SSL_CTX_use_PrivateKey(context, material.key.get()) == 1;
  }
  return ok ? Status() : InternalError("TLS context: " + TakeOpensslError());
}

Result<std::shared_ptr<ssl_ctx_st>> ClientTlsCache::Context() {
  ASSIGN_OR_RETURN(std::shared_ptr<const Material> material, Current());
  return material->context;
}

Status ClientTlsCache::Configure(ssl_ctx_st* context) {
  Result<std::shared_ptr<const Material>> material = Current();
  const Status status = material.ok() ? Apply(context, **material) : material.status();
  NoteFailure(status.message());
  SSL_CTX_set_cert_verify_callback(context, VerifyAndNote, this);
  return status;
}

int ClientTlsCache::VerifyAndNote(x509_store_ctx_st* chain, void* cache) {
  const int verified = X509_verify_cert(chain);
  if (verified != 1) {
    static_cast<ClientTlsCache*>(cache)->NoteFailure(X509_verify_cert_error_string(X509_STORE_CTX_get_error(chain)));
  }
  return verified;
}

void ClientTlsCache::NoteFailure(std::string failure) {
  MutexLock lock(mutex_);
  failure_ = std::move(failure);
}

std::string ClientTlsCache::TakeFailure() {
  MutexLock lock(mutex_);
  return std::exchange(failure_, "");
}

}  // namespace paceline::net
