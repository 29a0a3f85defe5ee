// What a program answers on /metrics: the page of its registry in the text format 0.0.4, or in OpenMetrics 1.0 for who
// accepts that, as Prometheus does. Pure; thread-safe. Callers: operator, agent, snapshotter.
#pragma once

#include <string>
#include <string_view>

#include "lib/net/http_server.h"

namespace paceline::net {

// `text` is what MetricsRegistry::Render gives.
ServerResponse MetricsPage(const ServerRequest& request, std::string text);

// The same families and samples in OpenMetrics: counters are named without "_total", and the end is marked, so that a
// page that was cut off is not taken for a whole one.
std::string AsOpenMetrics(std::string_view text);

}  // namespace paceline::net
