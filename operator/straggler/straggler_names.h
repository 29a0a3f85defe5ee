// The names that straggler policies put into Kubernetes objects, and that people write there for them. Constants.
#pragma once

#include <string_view>

namespace paceline::operator_ {

// Annotation and taint of a node that a policy has out.
inline constexpr std::string_view kStragglerKey = "paceline.dev/straggler";
// On a node, by a person: no policy touches it; the value is the reason.
inline constexpr std::string_view kExcludeAnnotation = "paceline.dev/straggler-exclude";

}  // namespace paceline::operator_
