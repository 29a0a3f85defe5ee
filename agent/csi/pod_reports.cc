#include "agent/csi/pod_reports.h"

#include <algorithm>
#include <set>

namespace paceline::agent {
namespace {

constexpr std::string_view kStageVolumeType = "scratch";
constexpr std::string_view kDependenciesType = "deps";
constexpr size_t kStageFileBytes = 16 * 1024;  // docs/formats/stage-marker.md

}  // namespace

bool PodReports::Look(const std::vector<SeenVolume>& volumes) {
  bool has_changed = false;
  std::set<std::string> present;
  for (const SeenVolume& volume : volumes) {
    const VolumeRecord& record = volume.record;
    if (record.phase != VolumePhase::kPublished || !record.published_at) continue;
    present.insert(record.spec.pod.uid);
    has_changed = Merge(volume, ReadStages(record), false) || has_changed;
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

void PodReports::LookLast(const SeenVolume& volume) {
  if (volume.record.published_at) Merge(volume, ReadStages(volume.record), true);
}

// A pod's file may be missing, or be a pipe or a folder: then it has simply reported nothing.
std::vector<StageLine> PodReports::ReadStages(const VolumeRecord& volume) const {
  // A stage file lies on the node. Of a mount nobody knows how long reading takes, and its bytes are the trainer's.
  if (volume.spec.type != kStageVolumeType) return {};
  Result<std::string> text = host_.ReadFileStart(volume.spec.target.path + "/stage", kStageFileBytes);
  if (!text.ok()) return {};
  return ParseStageFile(*text, limits_.max_stages);
}

// True when the change is worth telling.
bool PodReports::MergeMount(const SeenVolume& volume, bool is_last, PodReport* report) const {
  // These are no checkpoints, and nobody waits for their bytes.
  if (!volume.figures || volume.record.spec.type == kDependenciesType) return false;
  const std::string& name = volume.record.spec.target.volume_name;
  auto found = std::find_if(report->mounts.begin(), report->mounts.end(),
                            [&](const MountReport& known) { return known.volume == name; });
  const bool is_new = found == report->mounts.end();
  if (is_new && report->mounts.size() >= limits_.max_mounts) return false;
  if (is_new) found = report->mounts.insert(found, MountReport{name, {}, false});
  const MountFigures before = found->figures;
  const bool had_read = found->has_read_start;
  MountFigures now = *volume.figures;
  // A mount that was started again counts from zero; what was seen of the start stays.
  if (before.first_read_at) now.first_read_at = before.first_read_at;
  if (before.last_read_at && (had_read || !now.last_read_at)) now.last_read_at = before.last_read_at;
  now.read_bytes = std::max(now.read_bytes, before.read_bytes);
  now.written_bytes = std::max(now.written_bytes, before.written_bytes);
  found->figures = now;
  const bool is_paused = now.last_read_at && clock_.WallNow() - *now.last_read_at >= limits_.read_pause;
  found->has_read_start = had_read || is_paused || (is_last && now.last_read_at);
  return is_new || now.state != before.state || now.restarts != before.restarts || found->has_read_start != had_read;
}

// What has come to its end stays, whatever an older look says.
bool PodReports::MergeDependencies(const api::PodDependencies& seen, PodReport* report) {
  const auto is_final = [](const api::PodDependencies& dependencies) {
    return dependencies.state != api::DependencyState::kInstalling &&
           dependencies.state != api::DependencyState::kRecording;
  };
  std::optional<api::PodDependencies>& known = report->dependencies;
  if (known && (*known == seen || (is_final(*known) && !is_final(seen)))) return false;
  known = seen;
  return true;
}

void PodReports::SeeDependencies(const PodIdentity& pod, const api::PodDependencies& dependencies) {
  MutexLock lock(mutex_);
  const auto found = reports_.find(pod.uid);
  if (found != reports_.end()) MergeDependencies(dependencies, &found->second);
}

bool PodReports::Merge(const SeenVolume& seen, std::vector<StageLine> stages, bool is_last) {
  const VolumeRecord& volume = seen.record;
  MutexLock lock(mutex_);
  auto [it, is_new] = reports_.try_emplace(volume.spec.pod.uid);
  PodReport& report = it->second;
  const size_t stages_before = report.stages.size();
  const WallTime published_before = report.volume_published_at;
  report.pod = volume.spec.pod;
  report.volume_published_at =
      is_new ? *volume.published_at : std::min(report.volume_published_at, *volume.published_at);
  for (StageLine& stage : stages) {  // a pod may have several volumes; what was seen once stays
    const bool is_known = std::any_of(report.stages.begin(), report.stages.end(),
                                      [&](const StageLine& known) { return known.name == stage.name; });
    if (!is_known && report.stages.size() < limits_.max_stages) report.stages.push_back(std::move(stage));
  }
  const bool has_mount_news = MergeMount(seen, is_last, &report);
  const bool has_dependency_news = seen.dependencies && MergeDependencies(*seen.dependencies, &report);
  return is_new || has_mount_news || has_dependency_news || report.stages.size() != stages_before ||
         report.volume_published_at != published_before;
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
