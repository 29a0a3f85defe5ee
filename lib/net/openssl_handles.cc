#include "lib/net/openssl_handles.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <limits>

namespace paceline::net {
namespace {

BioPtr ReadBio(std::string_view text) {
  if (text.size() > static_cast<size_t>(std::numeric_limits<int>::max())) return nullptr;
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Without this OpenSSL would ask for a passphrase on the terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

}  // namespace

std::string TakeOpensslError() {
  const unsigned long code = ERR_peek_last_error();
  std::string text = "unknown error";
  if (code != 0) {
    if (const char* reason = ERR_reason_error_string(code); reason != nullptr) {
      text = reason;
    } else {
      char buffer[256];
      ERR_error_string_n(code, buffer, sizeof(buffer));
      text = buffer;
    }
  }
  ERR_clear_error();
  return text;
}

Result<std::vector<X509Ptr>> ParsePemCertificates(std::string_view pem) {
  const BioPtr bio = ReadBio(pem);
  std::vector<X509Ptr> certificates;
  ERR_clear_error();
  while (bio != nullptr) {
    X509Ptr certificate(PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr));
    if (certificate == nullptr) break;
    certificates.push_back(std::move(certificate));
  }
  // The end of the text shows as "no start line"; anything else is a certificate that is there but broken.
  const unsigned long code = ERR_peek_last_error();
  const bool at_end = ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
  if (certificates.empty() || !at_end) {
    return InvalidArgumentError("PEM certificate: " + TakeOpensslError());
  }
  ERR_clear_error();
  return certificates;
}

Result<EvpPkeyPtr> ParsePemKey(std::string_view pem) {
  const BioPtr bio = ReadBio(pem);
  ERR_clear_error();
  EvpPkeyPtr key(bio == nullptr ? nullptr : PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr) return InvalidArgumentError("PEM private key: " + TakeOpensslError());
  return key;
}

std::string CommonName(const X509_NAME* name) {
  const int index = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  if (index < 0) return "";
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, index)));
  if (size < 0) return "";
  std::string result(reinterpret_cast<char*>(text), static_cast<size_t>(size));
  OPENSSL_free(text);
  return result;
}

}  // namespace paceline::net
