#include "agent/csi/pod_reports.h"

#include <algorithm>
#include <set>

namespace paceline::agent {
namespace {

constexpr size_t kStageFileBytes = 16 * 1024;  // docs/formats/stage-marker.md

}  // namespace

bool PodReports::Look(const std::vector<VolumeRecord>& volumes) {
  bool has_changed = false;
  std::set<std::string> present;
  for (const VolumeRecord& volume : volumes) {
    if (volume.phase != VolumePhase::kPublished || !volume.published_at) continue;
    present.insert(volume.spec.pod.uid);
    has_changed = Merge(volume, ReadStages(volume)) || has_changed;
  }
  const WallTime now = clock_.WallNow();
  MutexLock lock(mutex_);
  for (auto& [uid, report] : reports_) {
    const bool is_present = present.count(uid) > 0;
    if (is_present == !report.ended_at) continue;
    report.ended_at = is_present ? std::nullopt : std::optional<WallTime>(now);
    has_changed = true;
  }
  return ForgetOld(now) || has_changed;
}

void PodReports::LookLast(const VolumeRecord& volume) {
  if (volume.published_at) Merge(volume, ReadStages(volume));
}

// A pod's file may be missing, or be a pipe or a folder: then it has simply reported nothing.
std::vector<StageLine> PodReports::ReadStages(const VolumeRecord& volume) const {
  Result<std::string> text = host_.ReadFileStart(volume.spec.target.path + "/stage", kStageFileBytes);
  if (!text.ok()) return {};
  return ParseStageFile(*text, limits_.max_stages);
}

bool PodReports::Merge(const VolumeRecord& volume, std::vector<StageLine> stages) {
  MutexLock lock(mutex_);
  auto [it, is_new] = reports_.try_emplace(volume.spec.pod.uid);
  PodReport& report = it->second;
  const PodReport before = report;
  report.pod = volume.spec.pod;
  report.volume_published_at =
      is_new ? *volume.published_at : std::min(report.volume_published_at, *volume.published_at);
  for (StageLine& stage : stages) {  // a pod may have several volumes; what was seen once stays
    const bool is_known = std::any_of(report.stages.begin(), report.stages.end(),
                                      [&](const StageLine& known) { return known.name == stage.name; });
    if (!is_known && report.stages.size() < limits_.max_stages) report.stages.push_back(std::move(stage));
  }
  return is_new || !(report == before);
}

bool PodReports::ForgetOld(WallTime now) {
  bool has_forgotten = false;
  while (true) {
    auto oldest = reports_.end();
    for (auto it = reports_.begin(); it != reports_.end(); ++it) {
      if (!it->second.ended_at) continue;
      if (oldest == reports_.end() || *it->second.ended_at < *oldest->second.ended_at) oldest = it;
    }
    if (oldest == reports_.end()) return has_forgotten;
    const bool is_stale = now - *oldest->second.ended_at > limits_.keep_ended;
    if (!is_stale && reports_.size() <= limits_.max_pods) return has_forgotten;
    reports_.erase(oldest);
    has_forgotten = true;
  }
}

std::vector<PodReport> PodReports::Reports() const {
  std::vector<PodReport> reports;
  {
    MutexLock lock(mutex_);
    for (const auto& [uid, report] : reports_) reports.push_back(report);
  }
  std::stable_sort(reports.begin(), reports.end(), [](const PodReport& a, const PodReport& b) {
    return a.volume_published_at < b.volume_published_at;
  });
  return reports;
}

}  // namespace paceline::agent
