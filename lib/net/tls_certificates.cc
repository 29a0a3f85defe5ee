#include "lib/net/tls_certificates.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>
#include <ctime>

#include "lib/net/openssl_handles.h"
#include "lib/net/url.h"

namespace paceline::net {
namespace {

using std::chrono::duration_cast;

constexpr Duration kBackdate = std::chrono::minutes(5);

struct Extension {
  int nid;
  std::string value;  // OpenSSL's configuration syntax
};

struct LeafSubject {
  std::string common_name;
  std::string organization;
};

Status Failure(std::string_view what) { return InternalError(fmt::format("{}: {}", what, TakeOpensslError())); }

std::string ToPem(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

std::string ToPem(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

time_t ToTimeT(WallTime time) {
  return std::chrono::system_clock::to_time_t(std::chrono::time_point_cast<std::chrono::system_clock::duration>(time));
}

WallTime FromAsn1(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return WallTime();
  return WallTime(std::chrono::seconds(timegm(&parts)));
}

bool AddName(X509_NAME* name, const char* field, std::string_view value) {
  return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(value.data()),
                                    static_cast<int>(value.size()), -1, 0) == 1;
}

bool SetRandomSerial(X509* certificate) {
  unsigned char bytes[16];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) return false;
  bytes[0] &= 0x7f;  // positive
  bytes[0] |= 0x01;  // not zero, and always as long
  BIGNUM* number = BN_bin2bn(bytes, sizeof(bytes), nullptr);
  const bool ok = number != nullptr && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return ok;
}

bool AddExtensions(X509* certificate, X509* issuer, const std::vector<Extension>& extensions) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  for (const Extension& extension : extensions) {
    X509_EXTENSION* made = X509V3_EXT_conf_nid(nullptr, &context, extension.nid, extension.value.c_str());
    if (made == nullptr) return false;
    const bool added = X509_add_ext(certificate, made, -1) == 1;
    X509_EXTENSION_free(made);
    if (!added) return false;
  }
  return true;
}

// A certificate with everything set but issuer, extensions and signature.
Result<X509Ptr> NewCertificate(const LeafSubject& subject, EVP_PKEY* key, WallTime not_before, WallTime not_after) {
  X509Ptr certificate(X509_new());
  X509_NAME* name = certificate == nullptr ? nullptr : X509_get_subject_name(certificate.get());
  const bool ok = name != nullptr && X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
                  SetRandomSerial(certificate.get()) &&
                  ASN1_TIME_set(X509_getm_notBefore(certificate.get()), ToTimeT(not_before)) != nullptr &&
                  ASN1_TIME_set(X509_getm_notAfter(certificate.get()), ToTimeT(not_after)) != nullptr &&
                  X509_set_pubkey(certificate.get(), key) == 1;
  if (!ok) return Failure("make a certificate");
  if (!subject.organization.empty() && !AddName(name, "O", subject.organization)) {
    return InvalidArgumentError(fmt::format("organization \"{}\": {}", subject.organization, TakeOpensslError()));
  }
  if (!subject.common_name.empty() && !AddName(name, "CN", subject.common_name)) {
    return InvalidArgumentError(fmt::format("common name \"{}\": {}", subject.common_name, TakeOpensslError()));
  }
  return certificate;
}

Result<CertificateAndKey> IssueLeaf(const CertificateAndKey& ca, const LeafSubject& subject, Duration valid_for,
                                    const Clock& clock, const std::vector<Extension>& extensions) {
  if (valid_for <= Duration::zero()) return InvalidArgumentError("the validity of a certificate must be positive");
  ERR_clear_error();
  ASSIGN_OR_RETURN(std::vector<X509Ptr> ca_certificates, ParsePemCertificates(ca.certificate));
  ASSIGN_OR_RETURN(EvpPkeyPtr ca_key, ParsePemKey(ca.private_key));
  X509* issuer = ca_certificates.front().get();
  if (X509_check_private_key(issuer, ca_key.get()) != 1) {
    return InvalidArgumentError("CA: its key does not belong to its certificate");
  }
  const EvpPkeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failure("make a key");
  const WallTime now = clock.WallNow();
  const WallTime not_after = std::min(now + valid_for, FromAsn1(X509_get0_notAfter(issuer)));
  if (not_after <= now) return InvalidArgumentError("CA: it has expired");
  const WallTime not_before = std::max(now - kBackdate, FromAsn1(X509_get0_notBefore(issuer)));
  ASSIGN_OR_RETURN(X509Ptr leaf, NewCertificate(subject, key.get(), not_before, not_after));
  if (X509_set_issuer_name(leaf.get(), X509_get_subject_name(issuer)) != 1 ||
      !AddExtensions(leaf.get(), issuer, extensions) || X509_sign(leaf.get(), ca_key.get(), EVP_sha256()) == 0) {
    return Failure("sign a certificate");
  }
  return CertificateAndKey{ToPem(leaf.get()), ToPem(key.get())};
}

// A name goes into OpenSSL's extension syntax, where ',' and ':' would start something else.
bool IsPlainDnsName(std::string_view name) {
  if (name.empty() || name.size() > 253) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_' || c == '*';
  });
}

void ReadAlternativeNames(X509* certificate, CertificateInfo* info) {
  auto* names = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type == GEN_DNS) {
      info->dns_names.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                                   static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      const int size = ASN1_STRING_length(name->d.iPAddress);
      char text[INET6_ADDRSTRLEN] = "";
      const int family = size == 4 ? AF_INET : AF_INET6;
      if (size != 4 && size != 16) continue;
      inet_ntop(family, ASN1_STRING_get0_data(name->d.iPAddress), text, sizeof(text));
      info->ip_addresses.emplace_back(text);
    }
  }
  GENERAL_NAMES_free(names);
}

}  // namespace

Result<CertificateAndKey> CreateCa(std::string_view common_name, Duration valid_for, const Clock& clock) {
  if (common_name.empty()) return InvalidArgumentError("a CA needs a common name");
  if (valid_for <= Duration::zero()) return InvalidArgumentError("the validity of a certificate must be positive");
  ERR_clear_error();
  const EvpPkeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failure("make a key");
  const WallTime now = clock.WallNow();
  const LeafSubject subject = {std::string(common_name), ""};
  ASSIGN_OR_RETURN(X509Ptr ca, NewCertificate(subject, key.get(), now - kBackdate, now + valid_for));
  const std::vector<Extension> extensions = {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                             {NID_key_usage, "critical,keyCertSign,cRLSign"},
                                             {NID_subject_key_identifier, "hash"}};
  if (X509_set_issuer_name(ca.get(), X509_get_subject_name(ca.get())) != 1 ||
      !AddExtensions(ca.get(), ca.get(), extensions) || X509_sign(ca.get(), key.get(), EVP_sha256()) == 0) {
    return Failure("sign a CA certificate");
  }
  return CertificateAndKey{ToPem(ca.get()), ToPem(key.get())};
}

Result<CertificateAndKey> IssueServerCertificate(const CertificateAndKey& ca, const std::vector<std::string>& dns_names,
                                                 const std::vector<std::string>& ip_addresses, Duration valid_for,
                                                 const Clock& clock) {
  std::string names;
  for (const std::string& name : dns_names) {
    if (!IsPlainDnsName(name)) return InvalidArgumentError(fmt::format("\"{}\" is not a DNS name", name));
    names += (names.empty() ? "DNS:" : ",DNS:") + name;
  }
  for (const std::string& address : ip_addresses) {
    if (!IsIpLiteral(address)) return InvalidArgumentError(fmt::format("\"{}\" is not an IP address", address));
    names += (names.empty() ? "IP:" : ",IP:") + address;
  }
  if (names.empty()) return InvalidArgumentError("a server certificate needs a name or an address");
  std::string common_name = dns_names.empty() ? ip_addresses.front() : dns_names.front();
  common_name.resize(
      std::min<size_t>(common_name.size(), 64));  // ub-common-name; verifiers look at the full names only
  return IssueLeaf(ca, {common_name, ""}, valid_for, clock,
                   {{NID_basic_constraints, "critical,CA:FALSE"},
                    {NID_key_usage, "critical,digitalSignature"},
                    {NID_ext_key_usage, "serverAuth"},
                    {NID_subject_alt_name, names},
                    {NID_authority_key_identifier, "keyid"}});
}

Result<CertificateAndKey> IssueClientCertificate(const CertificateAndKey& ca, std::string_view common_name,
                                                 std::string_view organization, Duration valid_for,
                                                 const Clock& clock) {
  if (common_name.empty()) return InvalidArgumentError("a client certificate needs a common name");
  return IssueLeaf(ca, {std::string(common_name), std::string(organization)}, valid_for, clock,
                   {{NID_basic_constraints, "critical,CA:FALSE"},
                    {NID_key_usage, "critical,digitalSignature"},
                    {NID_ext_key_usage, "clientAuth"},
                    {NID_authority_key_identifier, "keyid"}});
}

Result<CertificateAndKey> IssuePeerCertificate(const CertificateAndKey& ca, std::string_view name, Duration valid_for,
                                               const Clock& clock) {
  if (!IsPlainDnsName(std::string(name)) || name.size() > 64) {
    return InvalidArgumentError(fmt::format("\"{}\" is not a DNS name for peers", name));
  }
  return IssueLeaf(ca, {std::string(name), ""}, valid_for, clock,
                   {{NID_basic_constraints, "critical,CA:FALSE"},
                    {NID_key_usage, "critical,digitalSignature"},
                    {NID_ext_key_usage, "serverAuth,clientAuth"},
                    {NID_subject_alt_name, "DNS:" + std::string(name)},
                    {NID_authority_key_identifier, "keyid"}});
}

Result<CertificateInfo> ParseCertificate(std::string_view pem) {
  ASSIGN_OR_RETURN(std::vector<X509Ptr> certificates, ParsePemCertificates(pem));
  X509* certificate = certificates.front().get();
  CertificateInfo info;
  info.common_name = CommonName(X509_get_subject_name(certificate));
  info.issuer_common_name = CommonName(X509_get_issuer_name(certificate));
  info.not_before = FromAsn1(X509_get0_notBefore(certificate));
  info.not_after = FromAsn1(X509_get0_notAfter(certificate));
  info.is_ca = X509_check_ca(certificate) == 1;
  ReadAlternativeNames(certificate, &info);
  ERR_clear_error();
  return info;
}

Status VerifyIssuedBy(std::string_view leaf_pem, std::string_view ca_pem, WallTime when) {
  ASSIGN_OR_RETURN(std::vector<X509Ptr> leaf, ParsePemCertificates(leaf_pem));
  ASSIGN_OR_RETURN(std::vector<X509Ptr> cas, ParsePemCertificates(ca_pem));
  const X509StorePtr store(X509_STORE_new());
  for (const X509Ptr& ca : cas) {
    if (X509_STORE_add_cert(store.get(), ca.get()) != 1) return Failure("add a CA to a store");
  }
  using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, OpensslDeleter<X509_STORE_CTX_free>>;
  const StoreContextPtr context(X509_STORE_CTX_new());
  if (context == nullptr || X509_STORE_CTX_init(context.get(), store.get(), leaf.front().get(), nullptr) != 1) {
    return Failure("verify a certificate");
  }
  X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(context.get()), X509_V_FLAG_PARTIAL_CHAIN);
  X509_STORE_CTX_set_time(context.get(), 0, ToTimeT(when));
  const bool verified = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (verified) return Status();
  return InvalidArgumentError(fmt::format("certificate \"{}\": {}",
                                          CommonName(X509_get_subject_name(leaf.front().get())),
                                          X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()))));
}

Status CheckKeyMatches(std::string_view certificate_pem, std::string_view private_key_pem) {
  ASSIGN_OR_RETURN(std::vector<X509Ptr> certificates, ParsePemCertificates(certificate_pem));
  ASSIGN_OR_RETURN(EvpPkeyPtr key, ParsePemKey(private_key_pem));
  const bool matches = X509_check_private_key(certificates.front().get(), key.get()) == 1;
  ERR_clear_error();
  return matches ? Status() : InvalidArgumentError("the private key does not belong to the certificate");
}

}  // namespace paceline::net
