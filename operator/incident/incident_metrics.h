// The count of Incidents that were told, by the class of their cause. Whoever tells one counts it: the controller of
// stalls and slow runs, and that of slow nodes. Thread-safe.
#pragma once

#include <string>

#include "lib/api/incident.h"
#include "lib/base/metrics.h"

namespace paceline::operator_ {

// "Network", "Compute", ... of the verdict; empty without one.
std::string CategoryOf(const api::Incident& incident);

// One family for all callers, with every class from zero on, so that a first incident shows as an increase.
MetricFamily<Counter>& IncidentsTotal(MetricsRegistry& metrics);

}  // namespace paceline::operator_
