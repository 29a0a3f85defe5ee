// The names that straggler policies put into Kubernetes objects, and that people write there for them. Constants.
#pragma once

#include <string_view>

#include "lib/api/names.h"
#include "lib/kube/resource.h"
#include "operator/resources.h"

namespace paceline::operator_ {

inline const kube::Resource kStragglerPolicies = ResourceOf(api::kStragglerPolicyKind);

// Field managers.
inline constexpr std::string_view kSlowdownManager = "paceline-slowdown";
inline constexpr std::string_view kStragglerManager = "paceline-straggler";

// Annotation and taint of a node that a policy has out.
inline constexpr std::string_view kStragglerKey = "paceline.dev/straggler";
// On a node, by a person: no policy touches it; the value is the reason.
inline constexpr std::string_view kExcludeAnnotation = "paceline.dev/straggler-exclude";
// "true" on an Incident: the action may be taken. "true" on a policy: its breaker is reset.
inline constexpr std::string_view kApproveAnnotation = "paceline.dev/approve";
inline constexpr std::string_view kResetBreakerAnnotation = "paceline.dev/reset-breaker";
// Annotation of Incidents that a policy made: its name. As a label, for selectors: the name, or what a label can hold
// of it.
inline constexpr std::string_view kPolicyOfIncident = "paceline.dev/straggler-policy";
// On policies that may have nodes out: these are put back before the policy goes.
inline constexpr std::string_view kStragglerFinalizer = "paceline.dev/straggler-nodes";

}  // namespace paceline::operator_
