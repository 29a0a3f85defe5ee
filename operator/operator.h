// The whole operator behind one object: watches, controllers, leader election, webhook, metrics. main() makes it for
// the real cluster, tests for the fake API server.
#pragma once

#include <memory>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/metrics.h"
#include "lib/base/result.h"
#include "lib/kube/client.h"
#include "lib/net/http.h"
#include "operator/config.h"

namespace paceline::operator_ {

// What the operator stands on; all must outlive it.
struct OperatorEnvironment {
  net::HttpTransport& transport;  // for the caches
  kube::Client& client;           // for the controllers and the webhook
  kube::Client& lease_client;     // on a connection of its own: a renewal must not wait behind a list
  const Clock& clock;
  Logger& log;
  MetricsRegistry& metrics;
};

class Operator {
 public:
  // Binds the metrics port. kUnavailable when it is taken, kInvalidArgument for bad leader election times.
  static Result<std::unique_ptr<Operator>> Create(const OperatorConfig& config, const OperatorEnvironment& environment);
  virtual ~Operator() = default;

  // Works until `stop`, then stops in order: controllers, lease, servers, watches. kAborted when the lease was lost,
  // after which the process has to end. Once.
  virtual Status Run(std::stop_token stop) = 0;

  // Bound ports; those of the webhook and the job page are 0 until they are served.
  virtual uint16_t metrics_port() const = 0;
  virtual uint16_t webhook_port() const = 0;
  virtual uint16_t page_port() const = 0;
  virtual bool is_leading() const = 0;
  virtual bool is_ready() const = 0;
};

}  // namespace paceline::operator_
