#include "agent/csi/deps_metrics.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/json.h"

namespace paceline::agent {
namespace {

std::string_view ResultText(RecordingResult result) {
  switch (result) {
    case RecordingResult::kRecorded: return "recorded";
    case RecordingResult::kSuperfluous: return "superfluous";
    case RecordingResult::kSkipped: return "skipped";
    case RecordingResult::kRefused: return "refused";
    case RecordingResult::kAborted: return "aborted";
    case RecordingResult::kFailed: return "failed";
  }
  return "failed";
}

constexpr RecordingResult kResults[] = {RecordingResult::kRecorded, RecordingResult::kSuperfluous,
                                        RecordingResult::kSkipped,  RecordingResult::kRefused,
                                        RecordingResult::kAborted,  RecordingResult::kFailed};

// Label and field of a mount's statistics.
constexpr std::pair<const char*, const char*> kByteSources[] = {{"memory", "memoryBytes"},
                                                                {"disk", "diskBytes"},
                                                                {"peer", "peerBytes"},
                                                                {"store", "originBytes"},
                                                                {"prefetch", "prefetchedBytes"}};

}  // namespace

DepsMetrics::DepsMetrics(MetricsRegistry& metrics)
    : restores_(metrics.CounterFamily(
          {"paceline_dependency_restores_total", "Pods whose dependencies were mounted from a snapshot.", {}})),
      installs_(metrics.CounterFamily({"paceline_dependency_installs_total",
                                       "Pods that had to install their dependencies, by why they were not restored.",
                                       {"cause"}})),
      recordings_(metrics.CounterFamily({"paceline_dependency_recordings_total",
                                         "Installs that were looked at to be recorded, by what became of it.",
                                         {"result"}})),
      recorded_bytes_(metrics.CounterFamily(
          {"paceline_dependency_recorded_bytes_total", "Bytes that recordings added to the store.", {}})),
      read_bytes_(metrics.CounterFamily({"paceline_dependency_read_bytes_total",
                                         "Bytes of mounted snapshots by where they came from; prefetch: fetched ahead "
                                         "of being read, and counted again when they are.",
                                         {"source"}})),
      quarantines_(metrics.CounterFamily({"paceline_dependency_quarantines_total",
                                          "Snapshots that this node has put aside, by what was wrong with them.",
                                          {"cause"}})),
      collected_(metrics.CounterFamily({"paceline_dependency_collected_snapshots_total",
                                        "Snapshots that this node has removed from the store, by why.",
                                        {"reason"}})),
      collected_bytes_(metrics.CounterFamily(
          {"paceline_dependency_collected_bytes_total", "Bytes that this node has removed from the store.", {}})),
      restore_seconds_(metrics.HistogramFamily(
          {"paceline_dependency_restore_duration_seconds", "From looking for a snapshot to its mount.", {}},
          ExponentialBuckets(0.05, 2, 12))),
      recording_seconds_(metrics.HistogramFamily(
          {"paceline_dependency_recording_duration_seconds", "From the end of an install to its snapshot.", {}},
          ExponentialBuckets(0.5, 2, 12))) {
  static_assert(std::size(kByteSources) == kSources);
  // From zero on, so that a first failure shows as an increase.
  for (const RecordingResult result : kResults) recordings_.With({std::string(ResultText(result))});
  for (const api::InstallCause cause : {api::InstallCause::kDamaged, api::InstallCause::kNotTrusted}) {
    quarantines_.With({std::string(api::InstallCauseText(cause))});
  }
  for (const api::InstallCause cause : kInstallCauses) installs_.With({std::string(api::InstallCauseText(cause))});
}

void DepsMetrics::CountStart(const DepsFate& fate) {
  if (!fate.image.empty()) {
    restores_.With({}).Add();
    if (fate.seconds) restore_seconds_.With({}).Observe(*fate.seconds);
  } else if (fate.cause) {
    installs_.With({std::string(api::InstallCauseText(*fate.cause))}).Add();
  }
}

void DepsMetrics::CountRecording(RecordingResult result, double seconds, uint64_t new_bytes) {
  recordings_.With({std::string(ResultText(result))}).Add();
  if (result != RecordingResult::kRecorded) return;
  recording_seconds_.With({}).Observe(seconds);
  recorded_bytes_.With({}).Add(static_cast<double>(new_bytes));
}

void DepsMetrics::CountQuarantine(api::InstallCause cause) {
  quarantines_.With({std::string(api::InstallCauseText(cause))}).Add();
}

void DepsMetrics::CountCollection(const deps::CollectReport& report) {
  for (const auto& [reason, count] : report.removed) {
    collected_.With({std::string(deps::RemovalReasonText(reason))}).Add(static_cast<double>(count));
  }
  collected_bytes_.With({}).Add(static_cast<double>(report.blobs.removed_bytes));
}

void DepsMetrics::SeeMount(const std::string& volume_id, std::string_view stats) {
  const Result<Json> json = ParseJson(stats);
  if (!json.ok()) return;
  std::array<int64_t, kSources> now{};
  for (size_t i = 0; i < kSources; ++i) now[i] = JsonIntOr(*json, kByteSources[i].second, 0).value_or(0);
  MutexLock lock(mutex_);
  std::array<int64_t, kSources>& before = seen_[volume_id];
  for (size_t i = 0; i < kSources; ++i) {
    // A process that was started again counts from zero.
    const int64_t grown = now[i] >= before[i] ? now[i] - before[i] : now[i];
    if (grown > 0) read_bytes_.With({kByteSources[i].first}).Add(static_cast<double>(grown));
  }
  before = now;
}

void DepsMetrics::ForgetMount(const std::string& volume_id) {
  MutexLock lock(mutex_);
  seen_.erase(volume_id);
}

}  // namespace paceline::agent
