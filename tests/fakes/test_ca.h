// A certificate authority and a server certificate for loopback, made fresh for one test. Not thread-safe to construct;
// the fields are constants afterwards. A failure to make them ends the test program.
#pragma once

#include <string>

#include "lib/base/clock.h"
#include "lib/net/tls_certificates.h"

namespace paceline::fakes {

struct TestCa {
  explicit TestCa(const std::string& name = "test-ca");

  // A certificate for "localhost", 127.0.0.1 and ::1, valid for a day.
  net::CertificateAndKey IssueForLoopback() const;
  net::CertificateAndKey IssueClient(const std::string& common_name) const;

  RealClock clock;
  net::CertificateAndKey ca;
  net::CertificateAndKey server;
};

}  // namespace paceline::fakes
