#include "operator/training_run/run_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "lib/blocks/registry/image_reference.h"

namespace paceline::operator_ {
namespace {

// Clocks of nodes and of the API server may differ by so much.
constexpr Duration kClockSkew = std::chrono::seconds(2);

using ImageKey = std::pair<std::string, std::string>;  // node, image

// As runtimes name it: "python" is docker.io/library/python:latest there.
std::string Complete(std::string_view image) {
  const Result<blocks::ImageReference> reference = blocks::ParseImageReference(image);
  return reference.ok() ? reference->ToString() : std::string(image);
}

// The newest report of the image; they are sorted so.
const api::ImageReport* FindReport(const WorkerInput& worker, const std::string& complete) {
  if (worker.images == nullptr) return nullptr;
  const auto found = std::find_if(worker.images->rbegin(), worker.images->rend(),
                                  [&](const api::ImageReport& report) { return Complete(report.image) == complete; });
  return found == worker.images->rend() ? nullptr : &*found;
}

api::RunImage Describe(const std::string& node, std::string_view image, const api::ImageReport& report,
                       WallTime queued_at) {
  api::RunImage row;
  row.node = node;
  row.image = image;
  row.mode = report.mode;
  row.was_there = !report.asked_at || *report.asked_at + kClockSkew < queued_at;
  row.reason = report.reason;
  row.message = report.message;
  if (report.asked_at && report.ready_at) {
    row.ready_seconds = ToSeconds(std::max(*report.ready_at - *report.asked_at, Duration::zero()));
  }
  row.hot_set = report.hot_set;
  row.figures = report.figures;
  return row;
}

std::map<ImageKey, api::RunImage> Seen(const std::vector<const WorkerInput*>& workers, WallTime queued_at) {
  std::map<ImageKey, api::RunImage> seen;
  for (const WorkerInput* worker : workers) {
    const kube::PodView& pod = *worker->pod;
    if (pod.spec.node_name.empty() || worker->images == nullptr) continue;
    for (const kube::ContainerSpec& container : pod.spec.containers) {
      const ImageKey key{pod.spec.node_name.str(), container.image.str()};
      if (seen.contains(key)) continue;
      const api::ImageReport* report = FindReport(*worker, Complete(key.second));
      if (report != nullptr) seen.emplace(key, Describe(key.first, key.second, *report, queued_at));
    }
  }
  return seen;
}

// Pulled ones first: they are what a person looks for; then by node.
bool ComesFirst(const api::RunImage& a, const api::RunImage& b) {
  const bool a_pulled = a.mode == api::ImageMode::kPulled, b_pulled = b.mode == api::ImageMode::kPulled;
  return std::tie(b_pulled, a.node, a.image) < std::tie(a_pulled, b.node, b.image);
}

bool IsOfThisStart(const api::RunImage& image) { return !image.was_there; }

void AddFigures(const std::vector<api::RunImage>& images, api::TrainingRunStatus& status) {
  api::RunBytes bytes = status.bytes.value_or(api::RunBytes{});
  bytes.image_from_registry = bytes.image_from_peers = bytes.image_from_cache = 0;
  api::ImageFigures fetched;
  for (const api::RunImage& image : images) {
    if (!image.figures || !IsOfThisStart(image)) continue;
    bytes.image_from_registry += image.figures->registry_bytes;
    bytes.image_from_peers += image.figures->peer_bytes;
    bytes.image_from_cache += image.figures->cache_bytes;
    if (image.hot_set != api::HotSetState::kFetched) continue;
    fetched.hits += image.figures->hits;
    fetched.misses += image.figures->misses;
  }
  status.bytes = bytes;
  if (const auto ratio = api::HitRatio(fetched)) status.hot_set = api::HotSetUse{"", ratio};
}

void AddFallbacks(const std::vector<api::RunImage>& images, api::TrainingRunStatus& status) {
  std::erase_if(status.fallbacks, [](const api::Fallback& f) { return f.feature == kLazyImageFeature; });
  for (const api::RunImage& image : images) {
    if (image.mode != api::ImageMode::kPulled || !IsOfThisStart(image)) continue;
    if (status.fallbacks.size() == api::kMaxRunFallbacks) break;
    status.fallbacks.push_back({std::string(kLazyImageFeature), image.node,
                                fmt::format("{}: {}: {}", image.image, image.reason, image.message), std::nullopt});
  }
}

}  // namespace

void AddImages(const std::vector<const WorkerInput*>& workers, const api::TrainingRunStatus& before,
               api::TrainingRunStatus& status) {
  std::map<ImageKey, api::RunImage> rows = Seen(workers, *status.queued_at);
  for (const api::RunImage& old : before.images) {
    const auto [row, is_gone] = rows.try_emplace({old.node, old.image}, old);
    // A snapshotter that was restarted no longer knows whose start it was.
    if (!is_gone && row->second.was_there && !old.was_there) row->second = old;
  }
  if (rows.empty()) return;
  status.images.clear();
  for (auto& [key, row] : rows) status.images.push_back(std::move(row));
  std::sort(status.images.begin(), status.images.end(), ComesFirst);
  AddFigures(status.images, status);
  AddFallbacks(status.images, status);
  if (status.images.size() > api::kMaxRunImages) status.images.resize(api::kMaxRunImages);
}

std::vector<api::Fallback> NewFallbacks(const api::TrainingRunStatus& before, const api::TrainingRunStatus& after) {
  std::vector<api::Fallback> fresh;
  for (const api::Fallback& fallback : after.fallbacks) {
    const bool is_known = std::any_of(before.fallbacks.begin(), before.fallbacks.end(), [&](const api::Fallback& old) {
      return old.feature == fallback.feature && old.node == fallback.node && old.reason == fallback.reason;
    });
    if (!is_known) fresh.push_back(fallback);
  }
  return fresh;
}

}  // namespace paceline::operator_
