// The end of the certificate that is served, as a metric, so that an alert comes before every admission fails: a
// renewal that does not happen (cert-manager gone, a Secret that cannot be written) shows nowhere else until then.
//
// Used by the operator around what gives net::HttpServer its TLS pair. Thread-safe as far as `load` is.
#pragma once

#include <functional>

#include "lib/base/metrics.h"
#include "lib/net/http_server.h"

namespace paceline::operator_ {

// `load` with the metric paceline_webhook_certificate_expiry_timestamp_seconds set at each call that gives a pair whose
// certificate parses; without one the metric keeps its value, or stays absent. `metrics` must outlive the result. Does
// not call `load` itself.
std::function<Result<net::TlsPair>()> WithExpiryMetric(std::function<Result<net::TlsPair>()> load,
                                                       MetricsRegistry& metrics);

}  // namespace paceline::operator_
