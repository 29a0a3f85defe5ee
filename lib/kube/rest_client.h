// The Client over HTTP, as JSON, and the transport that it and the caches share: credentials, a client-side rate limit,
// and the rest_client_* metrics under client-go's names, so that stock dashboards work.
//
// Made once per process by main(). Thread-safe. A Client and a transport keep what they are given by reference.
#pragma once

#include <memory>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/metrics.h"
#include "lib/kube/client.h"
#include "lib/kube/config.h"
#include "lib/net/http.h"

namespace paceline::kube {

struct RestOptions {
  double qps = 50;  // requests per second that we allow ourselves; 0: no limit
  int burst = 100;
  std::string user_agent = "paceline";
};

// Adds rate limit and metrics to any transport. `host` is the metrics' label. A Send or Stream waits for its turn, at
// most until its deadline (kDeadlineExceeded) or stop (kCancelled).
std::unique_ptr<net::HttpTransport> NewLimitedTransport(std::unique_ptr<net::HttpTransport> transport,
                                                        const RestOptions& options, std::string host,
                                                        MetricsRegistry& metrics, const Clock& clock);

// The whole stack for one API server: network, TLS, credentials, rate limit, metrics. Does not connect.
// kInvalidArgument when the config cannot work.
Result<std::unique_ptr<net::HttpTransport>> NewApiTransport(const KubeConfig& config, const RestOptions& options,
                                                            MetricsRegistry& metrics, const Clock& clock);

// The Client on a transport, which must outlive it (NewApiTransport's, or a test's).
std::unique_ptr<Client> NewRestClient(net::HttpTransport& transport, const Clock& clock);

// As the server says on /version: "v1.34.4". Blocks until `deadline`; the errors are those of a Get, so it tells
// whether the server is there and lets us in.
Result<std::string> ServerVersion(net::HttpTransport& transport, Deadline deadline);

}  // namespace paceline::kube
