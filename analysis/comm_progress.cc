#include "analysis/comm_progress.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace paceline::analysis {
namespace {

// What one process says of one of its communicators.
struct Part {
  RankProgress rank;
  bool is_waiting = false;
  uint64_t newest = 0;  // number of the newest operation that goes on
  std::string function;
  std::optional<Duration> still;
};

bool IsOperation(CallKind kind) { return kind == CallKind::kColl || kind == CallKind::kP2p; }

Part PartOf(const ProcessView& process, size_t place) {
  const CommView& comm = process.comms[place];
  Part part;
  part.rank = {process.world_rank, comm.rank, process.node, process.host, process.state, comm.operations, 0};
  const auto moved = [&part](Duration still) { part.still = std::min(part.still.value_or(still), still); };
  for (const CallView& call : process.calls) {
    if (call.comm != static_cast<int32_t>(place) || !IsOperation(call.kind)) continue;
    if (!call.is_open && call.open_proxies == 0) continue;
    if (!part.is_waiting || call.sequence >= part.newest) {
      part.newest = call.sequence;
      part.function = call.func;
    }
    part.is_waiting = true;
    moved(call.still);
  }
  for (const ProxyView& proxy : process.proxies) {
    if (proxy.comm != static_cast<int32_t>(place)) continue;
    part.rank.steps += proxy.done;
    part.is_waiting = true;
    moved(proxy.still);
  }
  return part;
}

// Of ranks that have launched as much, one whose process does not run holds the others up, whatever its steps.
auto HowFar(const RankProgress& rank) {
  return std::tuple(rank.operations, rank.state == ProcessState::kRunning, rank.steps);
}

CommProgress Join(uint64_t id, const std::vector<Part>& parts, const std::string& name, int32_t ranks) {
  CommProgress progress;
  progress.id = id;
  progress.name = name;
  progress.ranks = ranks;
  progress.seen = parts.size();
  const auto is_behind = [](const Part& a, const Part& b) { return HowFar(a.rank) < HowFar(b.rank); };
  const auto [least, most] = std::minmax_element(parts.begin(), parts.end(), is_behind);
  progress.least_operations = least->rank.operations;
  progress.most_operations = most->rank.operations;
  if (HowFar(least->rank) != HowFar(most->rank)) progress.behind = least->rank;
  std::optional<Duration> still;
  uint64_t newest = 0;
  for (const Part& part : parts) {
    if (!part.is_waiting) continue;
    ++progress.waiting;
    if (part.newest >= newest && !part.function.empty()) {
      newest = part.newest;
      progress.function = part.function;
    }
    if (part.still) still = std::min(still.value_or(*part.still), *part.still);
  }
  progress.still = still.value_or(Duration{});
  return progress;
}

}  // namespace

std::vector<CommProgress> ProgressOf(const Tables& tables) {
  struct Seen {
    std::vector<Part> parts;
    std::string name;
    int32_t ranks = 0;
    bool is_open = false;
  };
  std::vector<uint64_t> order;
  std::map<uint64_t, Seen> comms;
  for (const ProcessView& process : tables.processes) {
    for (size_t place = 0; place < process.comms.size(); ++place) {
      const CommView& comm = process.comms[place];
      if (comm.id == 0) continue;
      const auto [found, is_new] = comms.try_emplace(comm.id);
      if (is_new) order.push_back(comm.id);
      Seen& seen = found->second;
      if (seen.name.empty()) seen.name = comm.name;
      seen.ranks = std::max(seen.ranks, comm.ranks);
      seen.is_open = seen.is_open || comm.is_open;
      seen.parts.push_back(PartOf(process, place));
    }
  }
  std::vector<CommProgress> all;
  for (const uint64_t id : order) {
    const Seen& seen = comms.at(id);
    if (seen.is_open) all.push_back(Join(id, seen.parts, seen.name, seen.ranks));
  }
  return all;
}

}  // namespace paceline::analysis
