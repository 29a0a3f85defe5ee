#include "operator/incident/incident_metrics.h"

#include <nlohmann/json.hpp>

#include "lib/api/codec.h"
#include "lib/api/incident_advice.h"

namespace paceline::operator_ {

std::string CategoryOf(const api::Incident& incident) {
  if (!incident.status.verdict) return "";
  return api::ToJson(incident)["status"]["verdict"].value("category", "");
}

MetricFamily<Counter>& IncidentsTotal(MetricsRegistry& metrics) {
  MetricFamily<Counter>& family = metrics.CounterFamily(
      {"paceline_incidents_total", "Incidents that were told, by the class of their cause.", {"category"}});
  for (const api::Advice& verdict : api::VerdictMessages()) family.With({std::string(verdict.reason)});
  return family;
}

}  // namespace paceline::operator_
