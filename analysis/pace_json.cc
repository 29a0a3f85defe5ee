#include "analysis/pace_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

namespace paceline::analysis {

namespace {

constexpr int64_t kPaceVersion = 1;
constexpr size_t kMaxRanks = 4096;
constexpr size_t kMaxComms = 64;
constexpr size_t kMaxWindows = 4096;
constexpr size_t kColumns = 5;
constexpr int64_t kMaxCount = int64_t{1} << 40;
// An operation, and the work before it, may have begun long before the window in which it ended.
constexpr Duration kMaxTime = std::chrono::hours(24);

Json RowOf(const PaceWindow& window) {
  return Json::array({window.start, window.operations, window.own.count(), window.inside.count(), window.ahead});
}

std::optional<PaceWindow> WindowOf(const Json& row) {
  if (!row.is_array() || row.size() < kColumns) return std::nullopt;
  int64_t numbers[kColumns];
  for (size_t i = 0; i < kColumns; i++) {
    if (!row[i].is_number_integer()) return std::nullopt;
    // A number that does not fit turns up as one that is out of range.
    numbers[i] = row[i].get<int64_t>();
    const int64_t limit = i == 2 || i == 3 ? kMaxTime.count() : kMaxCount;
    if (numbers[i] < 0 || numbers[i] > limit) return std::nullopt;
  }
  const PaceWindow window{numbers[0], static_cast<uint64_t>(numbers[1]), Duration(numbers[2]), Duration(numbers[3]),
                          static_cast<uint64_t>(numbers[4])};
  const bool is_aligned = window.start % (kPaceWindow / std::chrono::seconds(1)) == 0;
  if (!is_aligned || window.operations == 0 || window.own + window.inside == Duration::zero()) return std::nullopt;
  return window;
}

Status ReadComms(const Json& json, RankPace& rank) {
  const Json* comms = FindJson(json, "comms");
  if (comms == nullptr) return Status();
  if (!comms->is_array() || comms->size() > kMaxComms) {
    return InvalidArgumentError(fmt::format("comms is no array of at most {}", kMaxComms));
  }
  for (const Json& entry : *comms) {
    PaceComm comm;
    ASSIGN_OR_RETURN(const std::string id, JsonString(entry, "id"));
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), comm.id, 16);
    if (error != std::errc() || end != id.data() + id.size()) return InvalidArgumentError("id is no number: " + id);
    ASSIGN_OR_RETURN(comm.has_collectives, JsonBoolOr(entry, "collectives", false));
    ASSIGN_OR_RETURN(comm.has_p2p, JsonBoolOr(entry, "p2p", false));
    rank.comms.push_back(comm);
  }
  std::sort(rank.comms.begin(), rank.comms.end(), [](const PaceComm& a, const PaceComm& b) { return a.id < b.id; });
  return Status();
}

Result<RankPace> ReadRank(const Json& json) {
  RankPace rank;
  ASSIGN_OR_RETURN(const int64_t number, JsonInt(json, "rank"));
  if (number < 0 || number > INT32_MAX) return InvalidArgumentError("rank is out of range");
  rank.world_rank = static_cast<int32_t>(number);
  RETURN_IF_ERROR(ReadComms(json, rank));
  const Json* windows = FindJson(json, "windows");
  if (windows == nullptr) return rank;
  if (!windows->is_array() || windows->size() > kMaxWindows) {
    return InvalidArgumentError(fmt::format("windows is no array of at most {}", kMaxWindows));
  }
  std::set<int64_t> seen;
  for (const Json& row : *windows) {
    const std::optional<PaceWindow> window = WindowOf(row);
    if (window && seen.insert(window->start).second) rank.windows.push_back(*window);
  }
  std::sort(rank.windows.begin(), rank.windows.end(),
            [](const PaceWindow& a, const PaceWindow& b) { return a.start < b.start; });
  return rank;
}

}  // namespace

Json WritePaces(const std::vector<RankPace>& ranks) {
  Json json = {
      {"version", kPaceVersion}, {"windowSeconds", kPaceWindow / std::chrono::seconds(1)}, {"ranks", Json::array()}};
  for (const RankPace& rank : ranks) {
    Json comms = Json::array(), windows = Json::array();
    for (const PaceComm& comm : rank.comms) {
      comms.push_back(
          {{"id", fmt::format("{:016x}", comm.id)}, {"collectives", comm.has_collectives}, {"p2p", comm.has_p2p}});
    }
    for (const PaceWindow& window : rank.windows) windows.push_back(RowOf(window));
    json["ranks"].push_back({{"rank", rank.world_rank}, {"comms", std::move(comms)}, {"windows", std::move(windows)}});
  }
  return json;
}

Result<std::vector<RankPace>> ParsePaces(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  ASSIGN_OR_RETURN(const int64_t version, JsonInt(json, "version"));
  ASSIGN_OR_RETURN(const int64_t window, JsonInt(json, "windowSeconds"));
  if (version != kPaceVersion || window != kPaceWindow / std::chrono::seconds(1)) {
    return UnimplementedError(fmt::format("paces of version {} with windows of {} s", version, window));
  }
  const Json* list = FindJson(json, "ranks");
  if (list == nullptr || !list->is_array() || list->size() > kMaxRanks) {
    return InvalidArgumentError(fmt::format("ranks is no array of at most {}", kMaxRanks));
  }
  std::vector<RankPace> ranks;
  std::set<int32_t> seen;
  for (size_t i = 0; i < list->size(); i++) {
    Result<RankPace> rank = ReadRank((*list)[i]);
    if (!rank.ok()) return rank.status().Annotate(fmt::format("ranks.{}", i));
    if (seen.insert(rank->world_rank).second) ranks.push_back(*std::move(rank));
  }
  return ranks;
}

}  // namespace paceline::analysis
