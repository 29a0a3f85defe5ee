#include "cli/image_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/fs_tables.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"

namespace paceline::cli {
namespace {

std::string TextAt(const Json& json, const char* path) { return JsonStringOr(json, path, "").value_or(""); }

uint64_t Count(const Json& json, const char* path) {
  return static_cast<uint64_t>(std::max<int64_t>(JsonIntOr(json, path, 0).value_or(0), 0));
}

std::string ReadyText(const Json& asked) {
  const Result<WallTime> from = ParseRfc3339(TextAt(asked, "askedAt")), to = ParseRfc3339(TextAt(asked, "readyAt"));
  return from.ok() && to.ok() ? FormatSeconds(ToSeconds(*to - *from)) : "";
}

// From the store, from peers, from the node itself, and the share of chunks that were there.
std::vector<std::string> Figures(const Json& image) {
  const double hits = static_cast<double>(Count(image, "chunkHits"));
  const double all = hits + static_cast<double>(Count(image, "chunkMisses"));
  return {SizeText(Count(image, "originBytes")), SizeText(Count(image, "peerBytes")),
          SizeText(Count(image, "memoryBytes") + Count(image, "diskBytes")),
          all > 0 ? fmt::format("{:.0f} %", hits / all * 100) : "", TextAt(image, "hotSet.state")};
}

std::vector<std::string> Row(const std::string& name, const std::string& mode, const std::string& ready,
                             const Json* image, const std::string& reason) {
  std::vector<std::string> row = {name, mode, ready};
  const std::vector<std::string> figures = image == nullptr ? std::vector<std::string>(5) : Figures(*image);
  row.insert(row.end(), figures.begin(), figures.end());
  row.push_back(reason);
  return row;
}

}  // namespace

Result<Table> ImageStatusTable(std::string_view status) {
  const Result<Json> json = ParseJson(status);
  const Json* asked = json.ok() ? FindJson(*json, "asked") : nullptr;
  const Json* images = json.ok() ? FindJson(*json, "images") : nullptr;
  if (asked == nullptr || !asked->is_array() || images == nullptr || !images->is_array()) {
    return DataLossError("the snapshotter's answer is no status");
  }
  std::map<std::string, const Json*> opened;  // those that are not in the table yet
  for (const Json& image : *images) opened[TextAt(image, "digest")] = &image;
  std::map<std::string, const Json*> rest = opened;
  Table table{{"IMAGE", "MODE", "READY", "STORE", "PEERS", "NODE", "HITS", "HOT SET", "REASON"}, {}};
  for (const Json& entry : *asked) {
    const auto image = opened.find(TextAt(entry, "converted"));
    const bool is_open = image != opened.end() && TextAt(entry, "mode") == "Lazy";
    if (is_open) rest.erase(image->first);
    const std::string reason = TextAt(entry, "reason"), message = TextAt(entry, "message");
    table.rows.push_back(Row(TextAt(entry, "name"), TextAt(entry, "mode"), ReadyText(entry),
                             is_open ? image->second : nullptr,
                             message.empty() || reason == "NotConverted" ? reason : reason + ": " + message));
  }
  for (const auto& [digest, image] : rest) table.rows.push_back(Row(TextAt(*image, "name"), "Lazy", "", image, ""));
  return table;
}

}  // namespace paceline::cli
