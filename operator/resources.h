// Paceline's own kinds as kube::Resource, and the names under which the operator writes. Constants.
#pragma once

#include <string>
#include <string_view>

#include "lib/api/names.h"
#include "lib/kube/resource.h"

namespace paceline::operator_ {

inline kube::Resource ResourceOf(const api::KindInfo& kind) {
  return {std::string(api::kGroup), std::string(api::kVersion), std::string(kind.plural), std::string(kind.kind),
          kind.scope == api::Scope::kNamespaced};
}

inline const kube::Resource kTrainingJobs = ResourceOf(api::kTrainingJobKind);
inline const kube::Resource kTrainingRuns = ResourceOf(api::kTrainingRunKind);
inline const kube::Resource kNodePlans = ResourceOf(api::kNodePlanKind);
inline const kube::Resource kIncidents = ResourceOf(api::kIncidentKind);
inline const kube::Resource kImageProfiles = ResourceOf(api::kImageProfileKind);
inline const kube::Resource kDependencySnapshots = ResourceOf(api::kDependencySnapshotKind);

// Field managers: one for each part that applies.
inline constexpr std::string_view kTrainingJobManager = "paceline-training-job";
inline constexpr std::string_view kTrainingRunManager = "paceline-training-run";
inline constexpr std::string_view kNodePlanManager = "paceline-node-plan";
inline constexpr std::string_view kIncidentManager = "paceline-incident";
inline constexpr std::string_view kImageProfileManager = "paceline-image-profile";
inline constexpr std::string_view kSnapshotManager = "paceline-dependency-snapshot";

inline constexpr std::string_view kManagedByLabel = "app.kubernetes.io/managed-by";
inline constexpr std::string_view kManagedByValue = "paceline";

}  // namespace paceline::operator_
