#include "cli/trace_top.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "analysis/comm_progress.h"
#include "analysis/tables_json.h"
#include "cli/output.h"
#include "lib/base/json.h"

namespace paceline::cli {
namespace {

using analysis::CommProgress;

std::string NameOf(const CommProgress& comm) { return comm.name.empty() ? fmt::format("{:x}", comm.id) : comm.name; }

// Operations per second that all ranks have launched, between the looks; nothing without an earlier one.
std::map<uint64_t, double> RatesBetween(const TraceLook& now, const TraceLook* before) {
  std::map<uint64_t, double> rates;
  if (before == nullptr || now.at <= before->at) return rates;
  std::map<uint64_t, uint64_t> earlier;
  for (const CommProgress& comm : analysis::ProgressOf(before->tables)) earlier[comm.id] = comm.least_operations;
  for (const CommProgress& comm : analysis::ProgressOf(now.tables)) {
    const auto found = earlier.find(comm.id);
    if (found == earlier.end() || comm.least_operations < found->second) continue;
    rates[comm.id] = static_cast<double>(comm.least_operations - found->second) / ToSeconds(now.at - before->at);
  }
  return rates;
}

// A rank that a fast communicator shows a step or two behind is only at another place of the ring.
bool IsWorthNaming(const CommProgress& comm) {
  constexpr Duration kStill = std::chrono::seconds(1);
  return comm.behind && (comm.least_operations < comm.most_operations || comm.still >= kStill);
}

std::string PlaceOf(int32_t world_rank, const std::string& node, analysis::ProcessState state) {
  std::string text = fmt::format("rank {} on {}", world_rank, node.empty() ? "?" : node);
  if (state != analysis::ProcessState::kRunning) text += fmt::format(" ({})", analysis::ProcessStateName(state));
  return text;
}

std::string ProcessLine(const analysis::Tables& tables) {
  std::map<std::string, size_t> counts;
  std::set<std::string> nodes;
  std::string others;
  for (const analysis::ProcessView& process : tables.processes) {
    ++counts[analysis::ProcessStateName(process.state)];
    nodes.insert(process.node);
    if (process.state == analysis::ProcessState::kRunning) continue;
    others += "  " + PlaceOf(process.world_rank, process.node, process.state) + "\n";
  }
  std::string text = fmt::format("{} processes on {} nodes", tables.processes.size(), nodes.size());
  for (const auto& [state, count] : counts) text += fmt::format(", {} {}", count, state);
  return text + "\n" + others;
}

}  // namespace

std::string RenderTop(const TraceLook& now, const TraceLook* before) {
  const std::map<uint64_t, double> rates = RatesBetween(now, before);
  Table table{{"COMMUNICATOR", "RANKS", "OPERATIONS", "PER SECOND", "NOW", "STILL", "BEHIND"}, {}};
  for (const CommProgress& comm : analysis::ProgressOf(now.tables)) {
    std::vector<std::string> row = {NameOf(comm)};
    row.push_back(comm.seen == static_cast<size_t>(comm.ranks) ? fmt::format("{}", comm.ranks)
                                                               : fmt::format("{} of {}", comm.seen, comm.ranks));
    row.push_back(comm.least_operations == comm.most_operations
                      ? fmt::format("{}", comm.most_operations)
                      : fmt::format("{} to {}", comm.least_operations, comm.most_operations));
    const auto rate = rates.find(comm.id);
    row.push_back(rate == rates.end() ? "" : fmt::format("{:.1f}", rate->second));
    row.push_back(comm.waiting == 0 ? "" : fmt::format("{} in {}", comm.function, comm.waiting));
    row.push_back(comm.waiting == 0 ? "" : FormatSeconds(ToSeconds(comm.still)));
    row.push_back(IsWorthNaming(comm) ? PlaceOf(comm.behind->world_rank, comm.behind->node, comm.behind->state) : "");
    table.rows.push_back(std::move(row));
  }
  std::string text = table.rows.empty() ? "no communicator yet\n" : RenderTable(table);
  text += "\n" + ProcessLine(now.tables);
  for (const std::string& missing : now.tables.missing) text += "no answer from " + missing + "\n";
  return text;
}

Json TopValue(const TraceLook& now, const TraceLook* before) {
  const std::map<uint64_t, double> rates = RatesBetween(now, before);
  Json value = {{"communicators", Json::array()},
                {"processes", Json::object()},
                {"notRunning", Json::array()},
                {"missing", now.tables.missing}};
  for (const CommProgress& comm : analysis::ProgressOf(now.tables)) {
    Json entry = {{"id", fmt::format("{:x}", comm.id)},
                  {"name", comm.name},
                  {"ranks", comm.ranks},
                  {"ranksSeen", comm.seen},
                  {"leastOperations", comm.least_operations},
                  {"mostOperations", comm.most_operations},
                  {"ranksInOperation", comm.waiting}};
    const auto rate = rates.find(comm.id);
    if (rate != rates.end()) entry["operationsPerSecond"] = rate->second;
    if (comm.waiting > 0) {
      entry["function"] = comm.function;
      entry["stillSeconds"] = ToSeconds(comm.still);
    }
    if (comm.behind) {
      entry["behind"] = {{"rank", comm.behind->world_rank},
                         {"node", comm.behind->node},
                         {"host", comm.behind->host},
                         {"operations", comm.behind->operations},
                         {"steps", comm.behind->steps}};
    }
    value["communicators"].push_back(std::move(entry));
  }
  for (const analysis::ProcessView& process : now.tables.processes) {
    const std::string state = analysis::ProcessStateName(process.state);
    value["processes"][state] = value["processes"].value(state, 0) + 1;
    if (process.state == analysis::ProcessState::kRunning) continue;
    value["notRunning"].push_back({{"rank", process.world_rank}, {"node", process.node}, {"state", state}});
  }
  return value;
}

}  // namespace paceline::cli
