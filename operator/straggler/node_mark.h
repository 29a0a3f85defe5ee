// How a node looks to a StragglerPolicy, and the patches that mark it, cordon it and put it back. What a policy did is
// on the node itself: an annotation with its name, the action, the Incident and the time, and the taint of the same
// key; so nothing is ever undone that somebody else did. Pure functions; callers: the straggler controller.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "lib/api/straggler_policy.h"
#include "lib/kube/views.h"
#include "operator/straggler/policy_plan.h"

namespace paceline::operator_ {

std::string RenderMark(const NodeMark& mark);
// Nothing for what is not ours, or cannot be read: then nobody of us has made it.
std::optional<NodeMark> ParseMark(std::string_view annotation);

PolicyNode ReadPolicyNode(const kube::NodeView& node, const api::StragglerPolicySpec& spec);

// Who else takes care of the node's health, by what they write on it: NVSentinel, the remediation operators of medik8s,
// SageMaker HyperPod, and whoever announces maintenance by the node's conditions. Empty: nobody.
std::string OtherWriterOf(const kube::NodeView& node);

// Merge patches that hold for the version of `node` that they were made from only. Null when there is nothing to do:
// for an action, when the node has a mark or is cordoned.
nlohmann::json ActionPatch(const nlohmann::json& node, const NodeMark& mark);
// Of `policy`'s own mark and taint; `uncordon` for a release of a node that it has cordoned.
enum class Uncordon { kNo, kIfOurs };
nlohmann::json ReleasePatch(const nlohmann::json& node, std::string_view policy, Uncordon uncordon);

}  // namespace paceline::operator_
