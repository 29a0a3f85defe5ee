#include "analysis/mismatch.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::analysis {

namespace {

// A collective by its place in the order, or where places differ by NCCL's number of the function.
using Key = std::pair<std::string, uint64_t>;

std::string Describe(const CallView& call) {
  std::string text = fmt::format("{} of {} {}", call.func, call.count, call.datatype);
  if (call.func == "Broadcast" || call.func == "Reduce") text += fmt::format(" with root {}", call.peer);
  return text;
}

Verdict MismatchVerdict(const CommNode& comm, uint64_t place,
                        const std::map<std::string, std::vector<const ProcessView*>>& callers) {
  size_t total = 0;
  const auto* most = &*callers.begin();
  for (const auto& entry : callers) {
    total += entry.second.size();
    if (entry.second.size() > most->second.size()) most = &entry;
  }
  const bool is_majority = most->second.size() * 2 > total;
  Verdict verdict;
  verdict.category = Category::kMismatch;
  verdict.communicator = comm.name;
  verdict.path = {comm.name};
  verdict.confidence = is_majority ? 0.9 : 0.7;
  std::string calls;
  for (const auto& [text, processes] : callers) {
    calls += fmt::format("{}{} by {}{}", calls.empty() ? "" : ", ", text, RankName(*processes[0]),
                         processes.size() > 1 ? fmt::format(" and {} more", processes.size() - 1) : "");
    if (is_majority && &processes == &most->second) continue;
    for (const ProcessView* process : processes) verdict.culprits.push_back(CulpritOf(*process));
  }
  verdict.cause = fmt::format("the ranks of {} do not call the same: {}", comm.name, calls);
  verdict.evidence = {{"place in the order", static_cast<double>(place), "", {}},
                      {"ranks compared", static_cast<double>(total), "", {}},
                      {"different calls", static_cast<double>(callers.size()), "", {}}};
  if (total < static_cast<size_t>(std::max(comm.ranks, 0))) {
    verdict.not_visible.push_back(
        fmt::format("this call of {} of {} ranks", static_cast<size_t>(comm.ranks) - total, comm.ranks));
  }
  return verdict;
}

}  // namespace

std::optional<Verdict> FindMismatch(const CommGraph& graph) {
  for (const auto& [id, comm] : graph.comms()) {
    std::map<Key, std::map<std::string, std::vector<const ProcessView*>>> places;
    for (const auto& [rank, member] : comm.members) {
      for (const CallView& call : member.process->calls) {
        if (call.comm != member.comm || call.kind != CallKind::kColl) continue;
        const Key key = comm.has_p2p ? Key{call.func, call.sequence} : Key{"", call.index};
        places[key][Describe(call)].push_back(member.process);
      }
    }
    for (const auto& [key, callers] : places) {
      if (callers.size() > 1) return MismatchVerdict(comm, key.second, callers);
    }
  }
  return std::nullopt;
}

}  // namespace paceline::analysis
