// Makes and inspects X.509 certificates (EC P-256, SHA-256) as PEM text: a small certificate authority for the
// admission webhook, whose CA lives in a Secret and whose leaf is rotated by the operator (lib/kube), and for tests.
//
// Pure functions of their arguments and of the clock; thread-safe; nothing here blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::net {

// PEM texts: one certificate, and its key as unencrypted PKCS #8.
struct CertificateAndKey {
  std::string certificate;
  std::string private_key;
};

struct CertificateInfo {
  std::string common_name;
  std::string issuer_common_name;
  WallTime not_before;
  WallTime not_after;
  std::vector<std::string> dns_names;
  std::vector<std::string> ip_addresses;  // "10.0.0.1", "fd00::1"
  bool is_ca = false;
};

// A self-signed CA that may sign leaves but no further CA. Valid from five minutes ago (peers' clocks differ) until
// `valid_for` from now. kInvalidArgument for an empty name or a validity that is not positive.
Result<CertificateAndKey> CreateCa(std::string_view common_name, Duration valid_for, const Clock& clock);

// A leaf for TLS servers with these subject alternative names; the first one is the common name too. At least one name
// or address. Never valid for longer than its CA. kInvalidArgument for a bad address or a CA that does not parse.
Result<CertificateAndKey> IssueServerCertificate(const CertificateAndKey& ca, const std::vector<std::string>& dns_names,
                                                 const std::vector<std::string>& ip_addresses, Duration valid_for,
                                                 const Clock& clock);

// A leaf for TLS clients with this common name and, when not empty, organization (Kubernetes reads user and group).
Result<CertificateAndKey> IssueClientCertificate(const CertificateAndKey& ca, std::string_view common_name,
                                                 std::string_view organization, Duration valid_for, const Clock& clock);

// A leaf for programs that are both ends of connections among themselves: client and server, with this DNS name, which
// is the common name too. kInvalidArgument as above.
Result<CertificateAndKey> IssuePeerCertificate(const CertificateAndKey& ca, std::string_view name, Duration valid_for,
                                               const Clock& clock);

// Reads the first certificate of a PEM text. kInvalidArgument when there is none that parses.
Result<CertificateInfo> ParseCertificate(std::string_view pem);

// Ok when the first certificate of `leaf_pem` is signed by a certificate in `ca_pem` and both are valid at `when`;
// kInvalidArgument with OpenSSL's reason otherwise.
Status VerifyIssuedBy(std::string_view leaf_pem, std::string_view ca_pem, WallTime when);

// Ok when the key belongs to the first certificate of `certificate_pem`; kInvalidArgument otherwise.
Status CheckKeyMatches(std::string_view certificate_pem, std::string_view private_key_pem);

}  // namespace paceline::net
