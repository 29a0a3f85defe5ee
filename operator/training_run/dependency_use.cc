#include "operator/training_run/dependency_use.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/names.h"

namespace paceline::operator_ {
namespace {

using api::DependencyState;
using api::InstallCause;
using api::SnapshotOutcome;

bool HasMarker(const WorkerInput& worker, std::string_view name) {
  return std::any_of(worker.markers.begin(), worker.markers.end(), [&](const Marker& marker) {
    return marker.name == name && marker.at >= worker.pod->meta.creation_time;
  });
}

// Something was to be restored, or may have been, and it did not work.
bool IsTrouble(const std::optional<InstallCause>& cause) {
  return cause == InstallCause::kStoreUnavailable || cause == InstallCause::kDamaged ||
         cause == InstallCause::kNotTrusted || cause == InstallCause::kQuarantined ||
         cause == InstallCause::kNotMounted;
}

std::string ReasonOf(const api::PodDependencies& told) {
  if (told.not_recorded.empty()) return told.reason;
  return fmt::format("{}; not recorded: {}", told.reason, told.not_recorded);
}

// Without the agent's word.
std::optional<api::WorkerDependencies> FromMarkers(const WorkerInput& worker) {
  const bool is_recorded = HasMarker(worker, "dependencies_recorded");
  const bool is_installed = HasMarker(worker, "dependencies_installed");
  if (!is_installed && !HasMarker(worker, "dependencies_restored")) return std::nullopt;
  const SnapshotOutcome outcome = is_recorded    ? SnapshotOutcome::kRecorded
                                  : is_installed ? SnapshotOutcome::kInstalled
                                                 : SnapshotOutcome::kRestored;
  return api::WorkerDependencies{outcome, "", std::nullopt};
}

}  // namespace

std::optional<api::WorkerDependencies> DependenciesOf(const WorkerInput& worker) {
  if (!worker.dependencies) return FromMarkers(worker);
  const api::PodDependencies& told = *worker.dependencies;
  const std::string reason = ReasonOf(told);
  switch (told.state) {
    // The agent mounts; the wrapper installs all the same when it finds something missing.
    case DependencyState::kRestored:
      if (HasMarker(worker, "dependencies_installed")) {
        return api::WorkerDependencies{SnapshotOutcome::kFellBack, "its log says why", std::nullopt};
      }
      return api::WorkerDependencies{SnapshotOutcome::kRestored, "", told.seconds};
    case DependencyState::kRecorded: return api::WorkerDependencies{SnapshotOutcome::kRecorded, reason, told.seconds};
    case DependencyState::kInstalling:
    case DependencyState::kRecording:
    case DependencyState::kNotRecorded: break;
  }
  if (!HasMarker(worker, "dependencies_installed")) return std::nullopt;  // it may still be at it
  const SnapshotOutcome outcome = IsTrouble(told.cause)                        ? SnapshotOutcome::kFellBack
                                  : HasMarker(worker, "dependencies_recorded") ? SnapshotOutcome::kRecorded
                                                                               : SnapshotOutcome::kInstalled;
  return api::WorkerDependencies{outcome, reason, told.seconds};
}

std::optional<api::SnapshotUse> SnapshotUseOf(const std::vector<const WorkerInput*>& workers) {
  size_t known = 0, restored = 0, recorded = 0, troubled = 0;
  std::string reason;
  api::SnapshotUse use;
  for (const WorkerInput* worker : workers) {
    const std::optional<api::WorkerDependencies> one = DependenciesOf(*worker);
    if (!one) continue;
    ++known;
    restored += one->outcome == SnapshotOutcome::kRestored ? 1 : 0;
    recorded += one->outcome == SnapshotOutcome::kRecorded ? 1 : 0;
    troubled += one->outcome == SnapshotOutcome::kFellBack ? 1 : 0;
    // Trouble is what a person should hear of first.
    const bool is_better = reason.empty() || (one->outcome == SnapshotOutcome::kFellBack && troubled == 1);
    if (one->outcome != SnapshotOutcome::kRestored && !one->reason.empty() && is_better) reason = one->reason;
    if (use.name.empty() && worker->dependencies && !worker->dependencies->key.empty()) {
      use.name = SnapshotName(worker->dependencies->key);
    }
  }
  if (known == 0) return std::nullopt;
  const bool has_mixed = restored > 0 && restored + recorded < known;
  use.outcome = recorded > 0                ? SnapshotOutcome::kRecorded
                : troubled > 0 || has_mixed ? SnapshotOutcome::kFellBack
                : restored > 0              ? SnapshotOutcome::kRestored
                                            : SnapshotOutcome::kInstalled;
  const size_t installed = known - restored;
  if (use.outcome == SnapshotOutcome::kFellBack) {
    use.reason = fmt::format("{} of {} workers installed", installed, known);
    use.reason += reason.empty() ? "; their logs say why" : ": " + reason;
  } else if (installed > 0) {
    use.reason = reason;
  }
  return use;
}

}  // namespace paceline::operator_
