#include "cli/trace_perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace paceline::cli {
namespace {

constexpr double kMicroseconds = 1e-3;  // of a nanosecond

std::optional<int64_t> Number(const Json& entry, const char* key) {
  const Json* found = FindJson(entry, key);
  if (found == nullptr || !found->is_number_integer()) return std::nullopt;
  // Not negative: differences of two then fit too.
  const int64_t value = found->get<int64_t>();
  return value >= 0 ? std::optional(value) : std::nullopt;
}

std::string Text(const Json& entry, const char* key) { return JsonStringOr(entry, key, "").value_or(""); }

const Json& List(const Json& records, const char* key) {
  static const Json kNone = Json::array();
  const Json* found = FindJson(records, key);
  return found != nullptr && found->is_array() ? *found : kNone;
}

int64_t FirstStart(const std::vector<Json>& nodes) {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const Json& records : nodes) {
    for (const Json& operation : List(records, "operations")) {
      first = std::min(first, Number(operation, "start").value_or(first));
    }
  }
  return first;
}

// Writes the events of one node, and names tracks as they turn up.
class NodeWriter {
 public:
  NodeWriter(int process, int64_t origin, Json& events) : process_(process), origin_(origin), events_(events) {}

  void Operation(const Json& operation) {
    const auto start = Number(operation, "start"), duration = Number(operation, "duration");
    const auto rank = Number(operation, "worldRank");
    if (!start || !duration || !rank) return;
    const std::string name = Text(operation, "commName");
    const std::string comm = name.empty() ? Text(operation, "comm") : name;
    events_.push_back({{"ph", "X"},
                       {"cat", "collective"},
                       {"name", Text(operation, "func")},
                       {"pid", process_},
                       {"tid", TrackOf(*rank, comm)},
                       {"ts", At(*start)},
                       {"dur", static_cast<double>(*duration) * kMicroseconds},
                       {"args",
                        {{"communicator", comm},
                         {"index", Number(operation, "index").value_or(0)},
                         {"bytes", Number(operation, "bytes").value_or(0)}}}});
  }

  void Trigger(const Json& trigger) {
    const auto at = Number(trigger, "at");
    if (!at) return;
    events_.push_back({{"ph", "i"},
                       {"s", "g"},
                       {"cat", "trigger"},
                       {"name", Text(trigger, "kind")},
                       {"pid", process_},
                       {"tid", 0},
                       {"ts", At(*at)},
                       {"args", {{"detail", Text(trigger, "detail")}}}});
  }

 private:
  double At(int64_t time) const { return static_cast<double>(time - origin_) * kMicroseconds; }

  // Operations of two communicators overlap, and Perfetto wants what is on one track nested.
  int TrackOf(int64_t rank, const std::string& comm) {
    const auto [found, is_new] = tracks_.try_emplace({rank, comm}, static_cast<int>(tracks_.size()) + 1);
    if (is_new) {
      events_.push_back({{"ph", "M"},
                         {"name", "thread_name"},
                         {"pid", process_},
                         {"tid", found->second},
                         {"args", {{"name", fmt::format("rank {} {}", rank, comm)}}}});
    }
    return found->second;
  }

  const int process_;
  const int64_t origin_;
  Json& events_;
  std::map<std::pair<int64_t, std::string>, int> tracks_;
};

}  // namespace

Result<Json> OperationsAsPerfetto(const std::string& run, const std::vector<NodeRecords>& nodes) {
  std::vector<Json> parsed;
  for (const NodeRecords& node : nodes) {
    ASSIGN_OR_RETURN(Json records, ParseJson(node.records).Annotate("records of " + node.node));
    parsed.push_back(std::move(records));
  }
  Json events = Json::array();
  const int64_t origin = FirstStart(parsed);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const int process = static_cast<int>(i) + 1;
    events.push_back(
        {{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"tid", 0}, {"args", {{"name", nodes[i].node}}}});
    NodeWriter writer(process, origin, events);
    for (const Json& operation : List(parsed[i], "operations")) writer.Operation(operation);
    // Without an operation there is no time to count from.
    if (origin == std::numeric_limits<int64_t>::max()) continue;
    for (const Json& trigger : List(parsed[i], "triggers")) writer.Trigger(trigger);
  }
  return Json{{"displayTimeUnit", "ms"},
              {"otherData", {{"run", run}, {"clocks", "each node's own"}}},
              {"traceEvents", std::move(events)}};
}

}  // namespace paceline::cli
