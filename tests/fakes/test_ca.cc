#include "tests/fakes/test_ca.h"

#include <utility>

namespace paceline::fakes {
namespace {
constexpr std::chrono::hours kDay{24};
}

TestCa::TestCa(const std::string& name)
    : ca(net::CreateCa(name, 10 * kDay, clock).value()), server(IssueForLoopback()) {}

net::CertificateAndKey TestCa::IssueForLoopback() const {
  return net::IssueServerCertificate(ca, {"localhost"}, {"127.0.0.1", "::1"}, kDay, clock).value();
}

net::CertificateAndKey TestCa::IssueClient(const std::string& common_name) const {
  return net::IssueClientCertificate(ca, common_name, "", kDay, clock).value();
}

}  // namespace paceline::fakes
