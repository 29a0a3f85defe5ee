#include "agent/images/image_status.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/base/json.h"
#include "lib/base/utf8.h"

namespace paceline::agent {
namespace {

constexpr int64_t kVersion = 1;
constexpr int kMaxDepth = 8;
constexpr size_t kMaxNameBytes = 1024;
constexpr size_t kMaxReasonBytes = 64;
constexpr size_t kMaxDigestBytes = 71;

std::string Text(const Json& json, const char* path, size_t max_bytes) {
  return TruncateUtf8(JsonStringOr(json, path, "").value_or(""), max_bytes);
}

int64_t Count(const Json& json, const char* path) { return std::max<int64_t>(JsonIntOr(json, path, 0).value_or(0), 0); }

std::optional<WallTime> Time(const Json& json, const char* path) {
  const Result<WallTime> time = ParseRfc3339(JsonStringOr(json, path, "").value_or(""));
  return time.ok() ? std::optional(*time) : std::nullopt;
}

std::optional<api::HotSetState> HotSetOf(const Json& image) {
  constexpr std::pair<std::string_view, api::HotSetState> kStates[] = {{"None", api::HotSetState::kNone},
                                                                       {"Recording", api::HotSetState::kRecording},
                                                                       {"Recorded", api::HotSetState::kRecorded},
                                                                       {"Fetched", api::HotSetState::kFetched},
                                                                       {"Failed", api::HotSetState::kFailed}};
  const std::string name = JsonStringOr(image, "hotSet.state", "").value_or("");
  for (const auto& [known, state] : kStates) {
    if (name == known) return state;
  }
  return std::nullopt;
}

void ReadOpened(const Json& image, api::ImageReport* report) {
  report->store = Text(image, "store", kMaxNameBytes);
  report->hot_set = HotSetOf(image);
  report->hot_set_chunks = Count(image, "hotSet.chunks");
  report->hot_set_bytes = Count(image, "hotSet.bytes");
  report->hot_set_digest = Text(image, "hotSet.digest", kMaxDigestBytes);
  api::ImageFigures& figures = report->figures.emplace();
  figures.read_bytes = Count(image, "readBytes");
  figures.cache_bytes = Count(image, "memoryBytes") + Count(image, "diskBytes");
  figures.peer_bytes = Count(image, "peerBytes");
  figures.registry_bytes = Count(image, "originBytes");
  figures.prefetched_bytes = Count(image, "prefetchedBytes");
  figures.hits = Count(image, "chunkHits");
  figures.misses = Count(image, "chunkMisses");
}

}  // namespace

Result<std::vector<api::ImageReport>> ParseImageStatus(std::string_view text) {
  const Result<Json> status = ParseJson(text, kMaxDepth);
  if (!status.ok()) return DataLossError("status of the snapshotter: " + status.status().message());
  const Json* asked = FindJson(*status, "asked");
  const Json* images = FindJson(*status, "images");
  const bool is_status = JsonIntOr(*status, "version", 0).value_or(0) == kVersion && asked != nullptr &&
                         asked->is_array() && images != nullptr && images->is_array();
  if (!is_status) return DataLossError("status of the snapshotter: of another version, or none");
  std::map<std::string, const Json*> opened;  // by the converted image's digest
  for (const Json& image : *images) opened[JsonStringOr(image, "digest", "").value_or("")] = &image;

  std::vector<api::ImageReport> reports;
  const auto add = [&](const Json& entry, const std::string& converted) -> api::ImageReport* {
    api::ImageReport report;
    report.image = Text(entry, "name", kMaxNameBytes);
    if (report.image.empty()) return nullptr;
    const auto image = opened.find(converted);
    if (image != opened.end()) ReadOpened(*image->second, &report);
    reports.push_back(std::move(report));
    return &reports.back();
  };
  // Open images that an earlier run of the plugin was asked for.
  std::set<std::string> asked_for;
  for (const Json& entry : *asked) asked_for.insert(JsonStringOr(entry, "converted", "").value_or(""));
  for (const auto& [digest, image] : opened) {
    if (digest.empty() || asked_for.contains(digest)) continue;
    if (api::ImageReport* report = add(*image, digest)) {
      report->mode = api::ImageMode::kLazy;
      report->manifest = Text(*image, "subject", kMaxDigestBytes);
    }
  }
  for (const Json& entry : *asked) {
    const bool is_lazy = JsonStringOr(entry, "mode", "").value_or("") == "Lazy";
    api::ImageReport* report = add(entry, is_lazy ? JsonStringOr(entry, "converted", "").value_or("") : "-");
    if (report == nullptr) continue;
    report->mode = is_lazy ? api::ImageMode::kLazy : api::ImageMode::kPulled;
    report->manifest = Text(entry, "manifest", kMaxDigestBytes);
    report->reason = Text(entry, "reason", kMaxReasonBytes);
    report->message = Text(entry, "message", api::kMaxImageMessageBytes);
    report->asked_at = Time(entry, "askedAt");
    report->ready_at = Time(entry, "readyAt");
  }
  if (reports.size() > api::kMaxImageReports) {
    reports.erase(reports.begin(), reports.end() - static_cast<ptrdiff_t>(api::kMaxImageReports));
  }
  return reports;
}

}  // namespace paceline::agent
