#include "operator/dependencies/snapshot_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/api/names.h"
#include "lib/base/json.h"
#include "lib/base/units.h"
#include "lib/deps/key.h"
#include "operator/messages.h"

namespace paceline::operator_ {
namespace {

using api::DependencyState;
using api::InstallCause;
using api::SnapshotState;

bool IsActive(const SnapshotReport& report) {
  const DependencyState state = report.told.dependencies.state;
  return !report.is_silent && (state == DependencyState::kInstalling || state == DependencyState::kRecording);
}

void Raise(std::optional<WallTime>* latest, const std::optional<WallTime>& time) {
  if (time && (!*latest || **latest < *time)) *latest = time;
}

// The latest decision with this cause.
std::optional<WallTime> LatestWith(const std::vector<SnapshotReport>& reports, InstallCause cause) {
  std::optional<WallTime> latest;
  for (const SnapshotReport& report : reports) {
    if (report.told.dependencies.cause == cause) Raise(&latest, report.told.dependencies.at);
  }
  return latest;
}

// That a snapshot is wrong, as one agent tells it.
struct Finding {
  const api::Advice* advice = nullptr;  // null: nobody tells of any
  std::optional<WallTime> at;
  std::string what;
};

// The latest. Of two at the same time the more exact one.
Finding LatestFinding(const std::vector<SnapshotReport>& reports) {
  Finding latest;
  const auto consider = [&latest](const api::Advice& advice, const std::optional<WallTime>& at, const std::string& node,
                                  const std::string& why) {
    if (!at || (latest.at && *latest.at >= *at)) return;
    latest = {&advice, at, fmt::format("node {}: {}", node, why)};
  };
  for (const SnapshotReport& report : reports) {
    const api::PodDependencies& told = report.told.dependencies;
    if (told.cause == InstallCause::kDamaged) consider(kSnapshotDamaged, told.at, report.told.node, told.reason);
    if (told.cause == InstallCause::kNotTrusted) consider(kSnapshotNotTrusted, told.at, report.told.node, told.reason);
    // One that was mounted and found wrong later.
    if (!told.cause && !told.quarantined.empty()) {
      consider(kSnapshotDamaged, told.quarantined_at, report.told.node, told.quarantined);
    }
  }
  if (latest.advice != nullptr) return latest;
  // Whoever has found it is not heard of any more.
  for (const SnapshotReport& report : reports) {
    const api::PodDependencies& told = report.told.dependencies;
    if (told.cause == InstallCause::kQuarantined)
      consider(kSnapshotQuarantined, told.at, report.told.node, told.reason);
  }
  return latest;
}

void SetRecorder(const SnapshotReport& report, api::DependencySnapshotStatus* status) {
  status->recorded_by_node = report.told.node;
  status->recorded_by_pod = report.told.pod.name;
  status->recorded_by_service_account = report.told.dependencies.service_account;
  if (!report.run.empty()) status->recorded_by_run = report.run;
}

// What the store was last seen to hold.
void TakeNewest(const std::vector<SnapshotReport>& reports, api::DependencySnapshotStatus* status) {
  for (const SnapshotReport& report : reports) {
    const api::PodDependencies& told = report.told.dependencies;
    if (told.digest.empty() || !told.recorded_at) continue;
    const bool is_newer = status->digest.empty() || !status->recorded_at || *told.recorded_at > *status->recorded_at;
    if (is_newer && told.digest != status->digest) {
      status->recorded_by_node.clear();
      status->recorded_by_pod.clear();
      status->recorded_by_run.clear();
      status->recorded_by_service_account.clear();
    }
    if (!is_newer) continue;
    status->digest = told.digest;
    status->size_bytes = told.size_bytes;
    status->stored_bytes = told.stored_bytes;
    status->recorded_at = told.recorded_at;
    status->expires_at = told.expires_at;
  }
  for (const SnapshotReport& report : reports) {
    const api::PodDependencies& told = report.told.dependencies;
    if (told.state == DependencyState::kRecorded && told.digest == status->digest) SetRecorder(report, status);
    // While there is nothing yet, who is at it.
    if (status->digest.empty() && told.state == DependencyState::kRecording) SetRecorder(report, status);
  }
}

void CountUses(const std::vector<SnapshotReport>& reports, api::DependencySnapshotStatus* status) {
  std::vector<std::string>& counted = status->recent_runs;
  for (const SnapshotReport& report : reports) {
    if (report.told.dependencies.state != DependencyState::kRestored) continue;
    Raise(&status->last_used, report.told.dependencies.at);
    if (report.run.empty() || std::find(counted.begin(), counted.end(), report.run) != counted.end()) continue;
    counted.push_back(report.run);
    ++status->uses;
  }
  if (counted.size() > api::kMaxRecentRuns) {
    counted.erase(counted.begin(), counted.end() - static_cast<std::ptrdiff_t>(api::kMaxRecentRuns));
  }
}

// When a snapshot was last seen in the store.
std::optional<WallTime> LastSeen(const SnapshotInput& input, const api::DependencySnapshotStatus& status) {
  std::optional<WallTime> seen = status.last_used;
  Raise(&seen, status.recorded_at);
  for (const SnapshotReport& report : input.reports) {
    // Its digest was learned when it was decided to restore, or later: then another worker had recorded.
    if (!report.told.dependencies.digest.empty()) Raise(&seen, report.told.dependencies.at);
  }
  return seen;
}

const SnapshotReport* LatestNotRecorded(const std::vector<SnapshotReport>& reports) {
  const SnapshotReport* latest = nullptr;
  for (const SnapshotReport& report : reports) {
    const api::PodDependencies& told = report.told.dependencies;
    if (told.state != DependencyState::kNotRecorded || !told.at) continue;
    if (latest == nullptr || *latest->told.dependencies.at < *told.at) latest = &report;
  }
  return latest;
}

struct Verdict {
  SnapshotState state;
  std::string reason, message;
};

Verdict Failed(const api::Advice& advice, std::string_view what) {
  return {SnapshotState::kFailed, std::string(advice.reason), api::Say(advice, what)};
}

Verdict Judge(const SnapshotInput& input, const api::DependencySnapshotStatus& status) {
  const std::optional<WallTime> seen = LastSeen(input, status);
  const auto is_news = [&seen](const std::optional<WallTime>& at) { return at && (!seen || *at > *seen); };
  const Finding finding = LatestFinding(input.reports);
  // Also when all that is heard of it since is that it lies aside.
  const bool is_wrong = is_news(finding.at) || is_news(LatestWith(input.reports, InstallCause::kQuarantined));
  const bool is_missing = is_news(LatestWith(input.reports, InstallCause::kNoSnapshot));
  const bool is_there = !status.digest.empty() && !is_wrong && !is_missing;
  if (is_there && (!status.expires_at || input.now < *status.expires_at))
    return {SnapshotState::kReady, "Recorded", ""};
  // Before its replacement is recorded, which begins at once: somebody should hear of it.
  if (is_wrong && finding.advice != nullptr) {
    return {SnapshotState::kQuarantined, std::string(finding.advice->reason), api::Say(*finding.advice, finding.what)};
  }
  if (std::any_of(input.reports.begin(), input.reports.end(), IsActive)) {
    return {SnapshotState::kRecording, "Recording", ""};
  }
  if (is_there) return {SnapshotState::kExpired, "Expired", ""};
  if (const SnapshotReport* report = LatestNotRecorded(input.reports)) {
    return Failed(kSnapshotNotRecorded, fmt::format("pod {} on node {}: {}", report->told.pod.name, report->told.node,
                                                    report->told.dependencies.not_recorded));
  }
  if (input.before.state == SnapshotState::kRecording || !input.before.state) {
    return Failed(kSnapshotRecorderGone, "whoever installed and recorded is gone");
  }
  // Nobody reports anything new.
  const api::Condition* known = api::FindCondition(status.conditions, kSnapshotReadyCondition);
  return known == nullptr ? Verdict{*input.before.state, "Unknown", ""}
                          : Verdict{*input.before.state, known->reason, known->message};
}

std::string Cut(std::string text, size_t limit) {
  if (text.size() > limit) text.resize(limit);
  return text;
}

// What the API takes of it. The key is over all.
api::SnapshotInputs InputsOf(const deps::KeyInputs& key) {
  api::SnapshotInputs inputs;
  inputs.image_digest = key.image;
  inputs.architecture = key.machine.arch;
  inputs.install = Cut(key.command, api::kMaxInstallBytes);
  for (const deps::KeyInput& input : key.inputs) {
    if (inputs.files.size() == api::kMaxSnapshotFiles) break;
    inputs.files.push_back({input.path, input.digest.Hex()});
  }
  for (const auto& [name, value] : key.environment) {
    if (inputs.environment.size() == api::kMaxSnapshotVariables) break;
    inputs.environment.emplace(name, Cut(value, api::kMaxSnapshotTextBytes));
  }
  const auto take = [](const std::vector<std::string>& all) {
    return std::vector<std::string>(
        all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), api::kMaxSnapshotPaths)));
  };
  inputs.capture = take(key.capture);
  inputs.exclude = take(key.exclude);
  inputs.format_version = deps::kKeyVersion;
  return inputs;
}

}  // namespace

api::DependencySnapshotStatus ComputeSnapshotStatus(const SnapshotInput& input) {
  api::DependencySnapshotStatus status = input.before;
  TakeNewest(input.reports, &status);
  CountUses(input.reports, &status);
  Verdict verdict = Judge(input, status);
  status.state = verdict.state;
  api::Condition ready;
  ready.type = kSnapshotReadyCondition;
  ready.status = verdict.state == SnapshotState::kReady       ? api::ConditionStatus::kTrue
                 : verdict.state == SnapshotState::kRecording ? api::ConditionStatus::kUnknown
                                                              : api::ConditionStatus::kFalse;
  ready.observed_generation = input.generation;
  ready.reason = std::move(verdict.reason);
  ready.message = std::move(verdict.message);
  api::SetCondition(status.conditions, std::move(ready), input.now);
  return status;
}

std::optional<WallTime> RemovalTime(const api::DependencySnapshotStatus& status, Duration keep) {
  if (status.state == SnapshotState::kExpired && status.expires_at) return *status.expires_at + keep;
  if (status.state != SnapshotState::kFailed && status.state != SnapshotState::kQuarantined) return std::nullopt;
  const api::Condition* ready = api::FindCondition(status.conditions, kSnapshotReadyCondition);
  if (ready == nullptr || !ready->last_transition_time) return std::nullopt;
  return *ready->last_transition_time + keep;
}

Result<api::DependencySnapshotSpec> SnapshotSpecOf(const Json& pod, const std::string& key) {
  const Json* volumes = FindJson(pod, "spec.volumes");
  if (volumes == nullptr || !volumes->is_array()) return NotFoundError("the pod has no volumes");
  for (const Json& volume : *volumes) {
    const bool is_ours = JsonStringOr(volume, "csi.driver", "").value_or("") == api::kCsiDriver;
    const Result<std::string> text = JsonString(volume, "csi.volumeAttributes.key");
    if (!is_ours || !text.ok()) continue;
    const Result<Json> document = ParseJson(*text);
    if (!document.ok() || deps::KeyOf(*document).Hex() != key) continue;
    ASSIGN_OR_RETURN(const deps::KeyInputs inputs, deps::ParseKeyDocument(*document));
    api::DependencySnapshotSpec spec;
    spec.key = key;
    spec.inputs = InputsOf(inputs);
    const Result<Duration> ttl = ParseDuration(JsonStringOr(volume, "csi.volumeAttributes.ttl", "").value_or(""));
    if (ttl.ok() && ttl->count() > 0) spec.ttl = *ttl;
    return spec;
  }
  return NotFoundError("the pod has no volume of this key");
}

}  // namespace paceline::operator_
