// What the agent answers about traces over HTTP, for the operator and for people:
//
//   GET /v1/traces                              the runs with traced processes here, and what goes wrong with them
//   GET /v1/traces/NAMESPACE/RUN/tables         what is in flight now
//   GET /v1/traces/NAMESPACE/RUN/records?since=NANOSECONDS   what has ended, since a time of the Unix epoch
//   GET /v1/traces/NAMESPACE/RUN/pace?since=NANOSECONDS      how fast its ranks here go, window by window
//
// JSON as in docs/formats/trace-tables.md. Outside Kubernetes a run has no namespace and its name stands alone. Builds
// answers only; the server is lib/net's. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/trace/collector.h"
#include "lib/net/http_server.h"

namespace paceline::agent {

// `device_faults` gives what is wrong with the node's devices, for the tables; from any thread, and at once.
// `collector` must outlive the routes.
std::map<std::string, net::Handler> TraceRoutes(const Collector& collector,
                                                std::function<std::vector<analysis::DeviceFault>()> device_faults);

}  // namespace paceline::agent
