#include "lib/net/tls_certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/simulated_clock.h"

namespace paceline::net {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(TlsCertificates, CaAndLeafSayWhatWasAsked) {
  const fakes::SimulatedClock clock;
  const CertificateAndKey ca = CreateCa("webhook-ca", hours(24 * 365), clock).value();
  const CertificateInfo ca_info = ParseCertificate(ca.certificate).value();
  EXPECT_EQ(ca_info.common_name, "webhook-ca");
  EXPECT_EQ(ca_info.issuer_common_name, "webhook-ca");
  EXPECT_TRUE(ca_info.is_ca);
  EXPECT_EQ(ca_info.not_after, clock.WallNow() + hours(24 * 365));
  EXPECT_LT(ca_info.not_before, clock.WallNow());

  const CertificateAndKey leaf =
      IssueServerCertificate(ca, {"hook.ns.svc", "*.ns.svc"}, {"10.0.0.1", "fd00::1"}, hours(48), clock).value();
  const CertificateInfo info = ParseCertificate(leaf.certificate).value();
  EXPECT_EQ(info.common_name, "hook.ns.svc");
  EXPECT_EQ(info.issuer_common_name, "webhook-ca");
  EXPECT_FALSE(info.is_ca);
  EXPECT_THAT(info.dns_names, ElementsAre("hook.ns.svc", "*.ns.svc"));
  EXPECT_THAT(info.ip_addresses, ElementsAre("10.0.0.1", "fd00::1"));
  EXPECT_EQ(info.not_after, clock.WallNow() + hours(48));
  EXPECT_TRUE(CheckKeyMatches(leaf.certificate, leaf.private_key).ok());
  EXPECT_FALSE(CheckKeyMatches(leaf.certificate, ca.private_key).ok());
}

TEST(TlsCertificates, LeafNeverOutlivesItsCa) {
  const fakes::SimulatedClock clock;
  const CertificateAndKey ca = CreateCa("ca", hours(10), clock).value();
  const CertificateAndKey leaf = IssueServerCertificate(ca, {"a"}, {}, hours(20), clock).value();
  EXPECT_EQ(ParseCertificate(leaf.certificate)->not_after, clock.WallNow() + hours(10));
}

TEST(TlsCertificates, VerifiesIssuerAndTime) {
  const fakes::SimulatedClock clock;
  const WallTime now = clock.WallNow();
  const CertificateAndKey ca = CreateCa("ca", hours(1000), clock).value();
  const CertificateAndKey other = CreateCa("ca", hours(1000), clock).value();  // same name, other key
  const CertificateAndKey leaf = IssueServerCertificate(ca, {"a"}, {}, hours(10), clock).value();
  EXPECT_TRUE(VerifyIssuedBy(leaf.certificate, ca.certificate, now).ok());
  EXPECT_TRUE(VerifyIssuedBy(leaf.certificate, other.certificate + ca.certificate, now).ok());
  EXPECT_EQ(VerifyIssuedBy(leaf.certificate, other.certificate, now).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(VerifyIssuedBy(leaf.certificate, ca.certificate, now + hours(11)).message(), HasSubstr("expired"));
  EXPECT_FALSE(VerifyIssuedBy(leaf.certificate, ca.certificate, now - hours(1)).ok());
}

TEST(TlsCertificates, ClientCertificateHasUserAndGroup) {
  const fakes::SimulatedClock clock;
  const CertificateAndKey ca = CreateCa("ca", hours(10), clock).value();
  const CertificateAndKey client = IssueClientCertificate(ca, "alice", "system:masters", hours(1), clock).value();
  EXPECT_EQ(ParseCertificate(client.certificate)->common_name, "alice");
  EXPECT_TRUE(VerifyIssuedBy(client.certificate, ca.certificate, clock.WallNow()).ok());
}

TEST(TlsCertificates, RefusesBadRequests) {
  const fakes::SimulatedClock clock;
  const CertificateAndKey ca = CreateCa("ca", hours(10), clock).value();
  const auto code = [](const auto& result) { return result.status().code(); };
  EXPECT_EQ(code(CreateCa("", hours(1), clock)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(CreateCa("a", seconds(0), clock)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(IssueServerCertificate(ca, {}, {}, hours(1), clock)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(IssueServerCertificate(ca, {"a,IP:1.2.3.4"}, {}, hours(1), clock)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(IssueServerCertificate(ca, {}, {"10.0.0"}, hours(1), clock)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(IssueServerCertificate(ca, {"a"}, {}, seconds(-1), clock)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(IssueServerCertificate({ca.certificate, "junk"}, {"a"}, {}, hours(1), clock)),
            StatusCode::kInvalidArgument);
  const CertificateAndKey other = CreateCa("ca", hours(10), clock).value();
  EXPECT_EQ(code(IssueServerCertificate({ca.certificate, other.private_key}, {"a"}, {}, hours(1), clock)),
            StatusCode::kInvalidArgument);
}

TEST(TlsCertificates, ExpiredCaIssuesNothing) {
  fakes::SimulatedClock clock;
  const CertificateAndKey ca = CreateCa("ca", hours(10), clock).value();
  clock.Advance(hours(11));
  EXPECT_EQ(IssueServerCertificate(ca, {"a"}, {}, hours(1), clock).status().code(), StatusCode::kInvalidArgument);
}

TEST(TlsCertificates, BrokenPemIsRefusedNotCrashed) {
  const fakes::SimulatedClock clock;
  const CertificateAndKey ca = CreateCa("ca", hours(10), clock).value();
  EXPECT_FALSE(ParseCertificate("").ok());
  EXPECT_FALSE(ParseCertificate(ca.private_key).ok());
  for (size_t size = 0; size + 30 < ca.certificate.size(); size += 7) {
    EXPECT_FALSE(ParseCertificate(ca.certificate.substr(0, size)).ok()) << size;
  }
  for (size_t at = 0; at < ca.certificate.size(); ++at) {
    std::string broken = ca.certificate;
    broken[at] = static_cast<char>(broken[at] ^ 0x11);
    ParseCertificate(broken).status().IgnoreError();  // some bytes do not matter to the parser; none may crash it
  }
}

TEST(TlsCertificates, APeersLeafIsForBothEndsAndNoCa) {
  const RealClock clock;
  const CertificateAndKey ca = CreateCa("peers-ca", std::chrono::hours(2), clock).value();
  const CertificateAndKey leaf = IssuePeerCertificate(ca, "paceline-peers", std::chrono::hours(1), clock).value();
  const CertificateInfo info = ParseCertificate(leaf.certificate).value();
  EXPECT_EQ(info.common_name, "paceline-peers");
  EXPECT_EQ(info.dns_names, std::vector<std::string>{"paceline-peers"});
  EXPECT_FALSE(info.is_ca);
  EXPECT_TRUE(VerifyIssuedBy(leaf.certificate, ca.certificate, clock.WallNow()).ok());
  EXPECT_TRUE(CheckKeyMatches(leaf.certificate, leaf.private_key).ok());
  for (const char* name : {"", "a b", "x,DNS:y"}) {
    EXPECT_FALSE(IssuePeerCertificate(ca, name, std::chrono::hours(1), clock).ok()) << name;
  }
  EXPECT_FALSE(IssuePeerCertificate(ca, std::string(65, 'x'), std::chrono::hours(1), clock).ok());
}

}  // namespace
}  // namespace paceline::net
