#include "operator/webhook/certificate_expiry.h"

#include <gtest/gtest.h>

#include "lib/net/tls_certificates.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::operator_ {
namespace {

constexpr const char* kName = "paceline_webhook_certificate_expiry_timestamp_seconds";

// The value of the metric in the text form; empty when it is absent.
std::string Shown(MetricsRegistry& metrics) {
  const std::string text = metrics.Render();
  const size_t at = text.find(std::string("\n") + kName + " ");
  if (at == std::string::npos) return "";
  const size_t begin = at + 1 + std::string(kName).size() + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST(CertificateExpiry, IsShownWhenAPairIsThereAndKeptWhenTheNextIsNone) {
  fakes::SimulatedClock clock;
  const auto metrics = MetricsRegistry::Create();
  Result<net::TlsPair> next = UnavailableError("no certificate yet");
  const auto load = WithExpiryMetric([&] { return next; }, *metrics);
  EXPECT_EQ(load().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Shown(*metrics), "");

  const auto ca = net::CreateCa("ca", std::chrono::hours(2), clock);
  ASSERT_TRUE(ca.ok()) << ca.status().ToString();
  const auto leaf = net::IssueServerCertificate(*ca, {"paceline"}, {}, std::chrono::hours(1), clock);
  ASSERT_TRUE(leaf.ok()) << leaf.status().ToString();
  next = net::TlsPair{leaf->certificate, leaf->private_key};
  ASSERT_TRUE(load().ok());
  const auto end = std::chrono::duration<double>((clock.WallNow() + std::chrono::hours(1)).time_since_epoch()).count();
  const std::string shown = Shown(*metrics);
  ASSERT_NE(shown, "");
  EXPECT_NEAR(std::stod(shown), end, 1);

  next = net::TlsPair{"not a certificate", ""};
  EXPECT_TRUE(load().ok()) << "whether it can be served is for the server to say";
  next = UnavailableError("gone");
  EXPECT_FALSE(load().ok());
  EXPECT_EQ(Shown(*metrics), shown);
}

}  // namespace
}  // namespace paceline::operator_
