// How fast the way to another node is: connections to the HTTP interface of its agent for the round trip, and a bounded
// amount of data from there for the throughput. Callers: the probe suite (the measuring side, in a process of its own)
// and the agent (the serving side).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/probe/measurement.h"
#include "lib/net/http_server.h"

namespace paceline::agent {

// Where an agent gives data to measure with; answers 503 while somebody trains there, or a probe runs.
inline constexpr std::string_view kProbeDataPath = "/v1/probe/data";

struct NetworkProbeOptions {
  std::vector<api::ProbePeer> peers;
  Duration length = std::chrono::milliseconds(700);
  uint64_t most_bytes = 2ULL << 30;  // that are fetched, however fast the way is
  int connections = 15;              // for the round trip; odd, the middle one counts
  Duration peer_limit = std::chrono::seconds(5);
};

// Takes the first peer that answers; missing when none does. net::InitHttpThreads must have been called. Blocks for a
// second, and for `peer_limit` with each peer that does not answer.
Measurement MeasureNetwork(const NetworkProbeOptions& options, const Clock& clock);

// `is_free`: nobody trains on this node and it is not probed itself. Called from threads of the server.
std::map<std::string, net::Handler> ProbeRoutes(std::function<bool()> is_free);

}  // namespace paceline::agent
