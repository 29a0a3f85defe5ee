// Whether every node on which a pod may land has a live agent, since a pod with one of our volumes waits on a node
// without: pure, over what the node cache and the agents' reports say. Caller: the pod webhook.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/kube/views.h"

namespace paceline::operator_ {

// How long ago the node's agent was heard of; empty: never.
using AgentSilence = std::function<std::optional<Duration>(std::string_view node)>;

// Empty when the pod may have our volumes; else why not, in words for the user. Looks at the ready, schedulable nodes
// that the pod's nodeSelector and tolerations allow (affinity is not looked at: it only makes the set smaller).
std::string WhyNoVolume(const nlohmann::json& pod, const std::vector<std::shared_ptr<const kube::NodeView>>& nodes,
                        const AgentSilence& silence, Duration limit);

}  // namespace paceline::operator_
