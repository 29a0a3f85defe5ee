#include "agent/trace_api.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "analysis/pace_json.h"
#include "analysis/tables_json.h"
#include "lib/base/json.h"

namespace paceline::agent {
namespace {

constexpr std::string_view kPrefix = "/v1/traces/";

net::ServerResponse Answer(const Json& json) {
  net::ServerResponse response;
  response.content_type = "application/json";
  response.body = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return response;
}

net::ServerResponse Refuse(int status, std::string text) {
  net::ServerResponse response;
  response.status = status;
  response.body = std::move(text) + "\n";
  return response;
}

Json RenderTrigger(const TraceTrigger& trigger) {
  return {{"kind", TraceTriggerName(trigger.kind)},
          {"at", trigger.at.time_since_epoch().count()},
          {"worldRank", trigger.world_rank},
          {"detail", trigger.detail}};
}

Json RenderStates(const std::vector<RunState>& states) {
  Json runs = Json::array();
  for (const RunState& state : states) {
    Json triggers = Json::array();
    for (const TraceTrigger& trigger : state.open) triggers.push_back(RenderTrigger(trigger));
    runs.push_back({{"run", state.run}, {"processes", state.processes}, {"triggers", std::move(triggers)}});
  }
  return {{"version", 1}, {"runs", std::move(runs)}};
}

// Value of `since` in a query; the epoch without one.
Result<WallTime> SinceOf(std::string_view query) {
  if (query.empty()) return WallTime{};
  constexpr std::string_view kName = "since=";
  int64_t value = 0;
  const char* end = query.data() + query.size();
  if (query.substr(0, kName.size()) == kName) {
    const auto [rest, error] = std::from_chars(query.data() + kName.size(), end, value);
    if (error == std::errc() && rest == end) return WallTime(std::chrono::nanoseconds(value));
  }
  return InvalidArgumentError("the query may be since=NANOSECONDS of the Unix epoch, and nothing else");
}

using DeviceFaults = std::function<std::vector<analysis::DeviceFault>()>;

net::ServerResponse OneRun(const Collector& collector, const DeviceFaults& device_faults,
                           const net::ServerRequest& request) {
  const std::string_view rest = std::string_view(request.path).substr(kPrefix.size());
  const size_t slash = rest.rfind('/');
  const std::string run(rest.substr(0, slash));
  const std::string_view what = slash == std::string_view::npos ? "" : rest.substr(slash + 1);
  if (what == "tables") {
    analysis::Tables tables = collector.TablesOf(run);
    if (tables.processes.empty()) return Refuse(404, "run " + run + ": no process of it is traced here");
    tables.device_faults = device_faults();
    return Answer(analysis::WriteTables(tables));
  }
  if (what == "records" || what == "pace") {
    const Result<WallTime> since = SinceOf(request.query);
    if (!since.ok()) return Refuse(400, since.status().message());
    if (what == "pace") {
      const auto paces = collector.PacesOf(run, *since);
      if (!paces.ok()) return Refuse(404, paces.status().message());
      return Answer(analysis::WritePaces(*paces));
    }
    const Result<Json> records = collector.RecordsOf(run, *since);
    if (!records.ok()) return Refuse(404, records.status().message());
    return Answer(*records);
  }
  return Refuse(404, "there are " + std::string(kPrefix) + "NAMESPACE/RUN/tables, .../records and .../pace");
}

}  // namespace

std::map<std::string, net::Handler> TraceRoutes(const Collector& collector, DeviceFaults device_faults) {
  std::map<std::string, net::Handler> routes;
  routes["GET /v1/traces"] = [&collector](const net::ServerRequest&, Deadline) {
    return Answer(RenderStates(collector.States()));
  };
  routes["GET " + std::string(kPrefix)] = [&collector, device_faults = std::move(device_faults)](
                                              const net::ServerRequest& request, Deadline) {
    return OneRun(collector, device_faults, request);
  };
  return routes;
}

}  // namespace paceline::agent
