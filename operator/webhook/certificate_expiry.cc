#include "operator/webhook/certificate_expiry.h"

#include <chrono>
#include <utility>

#include "lib/net/tls_certificates.h"

namespace paceline::operator_ {

std::function<Result<net::TlsPair>()> WithExpiryMetric(std::function<Result<net::TlsPair>()> load,
                                                       MetricsRegistry& metrics) {
  MetricFamily<Gauge>& expiry =
      metrics.GaugeFamily({"paceline_webhook_certificate_expiry_timestamp_seconds",
                           "When the certificate of the pod webhook and the job page ends, in Unix time; absent while "
                           "there is none.",
                           {}});
  return [load = std::move(load), &expiry]() -> Result<net::TlsPair> {
    Result<net::TlsPair> pair = load();
    if (!pair.ok()) return pair;
    const Result<net::CertificateInfo> info = net::ParseCertificate(pair->certificate_chain);
    if (info.ok()) expiry.With({}).Set(std::chrono::duration<double>(info->not_after.time_since_epoch()).count());
    return pair;
  };
}

}  // namespace paceline::operator_
