#include "lib/hdfs/gss_client.h"

#include <fmt/format.h>
#include <gssapi/gssapi.h>
#include <gssapi/gssapi_krb5.h>

#include <algorithm>

#include "lib/base/mutex.h"
#include "lib/hdfs/wire_bytes.h"

namespace paceline::hdfs {
namespace {

constexpr uint32_t kMaxMessageBytes = 65536;

std::string Describe(OM_uint32 code, int type) {
  std::string text;
  OM_uint32 more = 0;
  do {
    OM_uint32 minor = 0;
    gss_buffer_desc buffer = GSS_C_EMPTY_BUFFER;
    if (GSS_ERROR(gss_display_status(&minor, code, type, GSS_C_NO_OID, &more, &buffer))) break;
    if (!text.empty()) text += "; ";
    text.append(static_cast<const char*>(buffer.value), buffer.length);
    gss_release_buffer(&minor, &buffer);
  } while (more != 0);
  return text;
}

Status GssError(std::string_view what, OM_uint32 major, OM_uint32 minor) {
  return PermissionDeniedError(
      fmt::format("Kerberos: {}: {}: {}", what, Describe(major, GSS_C_GSS_CODE), Describe(minor, GSS_C_MECH_CODE)));
}

gss_buffer_desc Borrow(std::string_view bytes) { return {bytes.size(), const_cast<char*>(bytes.data())}; }

std::string TakeBuffer(gss_buffer_desc* buffer) {
  std::string bytes(static_cast<const char*>(buffer->value), buffer->length);
  OM_uint32 minor = 0;
  gss_release_buffer(&minor, buffer);
  return bytes;
}

// The established context, shared by the handshake and the protection after it.
class Context {
 public:
  ~Context() {
    OM_uint32 minor = 0;
    if (context_ != GSS_C_NO_CONTEXT) gss_delete_sec_context(&minor, &context_, GSS_C_NO_BUFFER);
    if (name_ != GSS_C_NO_NAME) gss_release_name(&minor, &name_);
  }

  Status SetName(const std::string& principal) {
    OM_uint32 minor = 0;
    gss_buffer_desc buffer = Borrow(principal);
    const OM_uint32 major = gss_import_name(&minor, &buffer, GSS_KRB5_NT_PRINCIPAL_NAME, &name_);
    return GSS_ERROR(major) ? GssError("service " + principal, major, minor) : Status();
  }

  Result<std::string> Init(std::string_view token, bool* is_done) {
    OM_uint32 minor = 0;
    gss_buffer_desc in = Borrow(token), out = GSS_C_EMPTY_BUFFER;
    constexpr OM_uint32 kFlags =
        GSS_C_MUTUAL_FLAG | GSS_C_REPLAY_FLAG | GSS_C_SEQUENCE_FLAG | GSS_C_INTEG_FLAG | GSS_C_CONF_FLAG;
    const OM_uint32 major = gss_init_sec_context(
        &minor, GSS_C_NO_CREDENTIAL, &context_, name_, const_cast<gss_OID>(gss_mech_krb5), kFlags, 0,
        GSS_C_NO_CHANNEL_BINDINGS, token.empty() ? GSS_C_NO_BUFFER : &in, nullptr, &out, nullptr, nullptr);
    std::string reply = TakeBuffer(&out);
    if (GSS_ERROR(major)) return GssError("no way to prove who we are (is there a valid ticket?)", major, minor);
    *is_done = major == GSS_S_COMPLETE;
    return reply;
  }

  Result<std::string> Wrap(std::string_view plain, bool hides) {
    MutexLock lock(mutex_);
    OM_uint32 minor = 0;
    gss_buffer_desc in = Borrow(plain), out = GSS_C_EMPTY_BUFFER;
    const OM_uint32 major = gss_wrap(&minor, context_, hides ? 1 : 0, GSS_C_QOP_DEFAULT, &in, nullptr, &out);
    if (GSS_ERROR(major)) return GssError("wrap", major, minor);
    return TakeBuffer(&out);
  }

  Result<std::string> Unwrap(std::string_view wrapped) {
    MutexLock lock(mutex_);
    OM_uint32 minor = 0;
    gss_buffer_desc in = Borrow(wrapped), out = GSS_C_EMPTY_BUFFER;
    const OM_uint32 major = gss_unwrap(&minor, context_, &in, &out, nullptr, nullptr);
    if (GSS_ERROR(major)) return DataLossError(GssError("unwrap", major, minor).message());
    return TakeBuffer(&out);
  }

 private:
  gss_ctx_id_t context_ = GSS_C_NO_CONTEXT;
  gss_name_t name_ = GSS_C_NO_NAME;
  Mutex mutex_;  // both directions use one context, which the library does not promise to be thread-safe
};

class GssProtection final : public SaslProtection {
 public:
  GssProtection(std::shared_ptr<Context> context, bool hides) : context_(std::move(context)), hides_(hides) {}
  Result<std::string> Wrap(std::string_view plain) override { return context_->Wrap(plain, hides_); }
  Result<std::string> Unwrap(std::string_view wrapped) override { return context_->Unwrap(wrapped); }

 private:
  const std::shared_ptr<Context> context_;
  const bool hides_;
};

class KerberosClient final : public GssClient {
 public:
  KerberosClient(std::shared_ptr<Context> context, std::vector<Qop> allowed)
      : context_(std::move(context)), allowed_(std::move(allowed)) {}

  Result<std::string> Step(std::string_view token) override {
    if (!is_established_) return context_->Init(token, &is_established_);
    return ChooseLayer(token);
  }

  std::unique_ptr<SaslProtection> TakeProtection() override {
    if (qop_ == Qop::kAuth) return nullptr;
    return std::make_unique<GssProtection>(context_, qop_ == Qop::kAuthConf);
  }

 private:
  // RFC 4752, 3.1: one byte of levels, three of the largest message; the answer has the same form.
  Result<std::string> ChooseLayer(std::string_view token) {
    ASSIGN_OR_RETURN(const std::string offer, context_->Unwrap(token));
    if (offer.size() != 4) return DataLossError("Kerberos: the server's offer of protection is malformed");
    const auto offered = static_cast<unsigned char>(offer[0]);
    int chosen = 0;
    for (const auto& [qop, bit] :
         {std::pair(Qop::kAuth, 1), std::pair(Qop::kAuthInt, 2), std::pair(Qop::kAuthConf, 4)}) {
      if ((offered & bit) == 0 || std::find(allowed_.begin(), allowed_.end(), qop) == allowed_.end()) continue;
      qop_ = qop;
      chosen = bit;
    }
    if (chosen == 0)
      return PermissionDeniedError("Kerberos: hadoop.rpc.protection suits nothing that the server offers");
    std::string reply;
    AppendBigEndian(static_cast<uint64_t>(chosen) << 24 | (qop_ == Qop::kAuth ? 0 : kMaxMessageBytes), 4, &reply);
    return context_->Wrap(reply, false);
  }

  const std::shared_ptr<Context> context_;
  const std::vector<Qop> allowed_;
  bool is_established_ = false;
  Qop qop_ = Qop::kAuth;
};

}  // namespace

Result<std::unique_ptr<GssClient>> GssClient::Make(const std::string& principal, std::vector<Qop> allowed) {
  auto context = std::make_shared<Context>();
  RETURN_IF_ERROR(context->SetName(principal));
  return std::unique_ptr<GssClient>(std::make_unique<KerberosClient>(std::move(context), std::move(allowed)));
}

}  // namespace paceline::hdfs
