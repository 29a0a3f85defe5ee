#include "operator/webhook/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

const Json* SpecField(const Json& pod, const char* name) {
  if (!pod.is_object()) return nullptr;
  const auto spec = pod.find("spec");
  if (spec == pod.end() || !spec->is_object()) return nullptr;
  const auto field = spec->find(name);
  return field == spec->end() || field->is_null() ? nullptr : &*field;
}

std::string Text(const Json& object, const char* name) {
  if (!object.is_object()) return {};
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool MatchesSelector(const kube::NodeView& node, const Json* selector) {
  if (selector == nullptr || !selector->is_object()) return true;
  for (const auto& [key, value] : selector->items()) {
    const kube::SharedString* label = node.meta.labels.Find(key);
    if (label == nullptr || !value.is_string() || *label != value.get_ref<const std::string&>()) return false;
  }
  return true;
}

bool Tolerates(const Json& toleration, const kube::Taint& taint) {
  const std::string key = Text(toleration, "key");
  const std::string effect = Text(toleration, "effect");
  if (!effect.empty() && taint.effect != effect) return false;
  if (!key.empty() && taint.key != key) return false;
  return Text(toleration, "operator") == "Exists" || (!key.empty() && taint.value == Text(toleration, "value"));
}

bool ToleratesAll(const kube::NodeView& node, const Json* tolerations) {
  return std::all_of(node.spec.taints.begin(), node.spec.taints.end(), [&](const kube::Taint& taint) {
    if (taint.effect == "PreferNoSchedule") return true;
    if (tolerations == nullptr || !tolerations->is_array()) return false;
    return std::any_of(tolerations->begin(), tolerations->end(), [&](const Json& t) { return Tolerates(t, taint); });
  });
}

bool MayLand(const kube::NodeView& node, const Json& pod) {
  return !node.spec.is_unschedulable && kube::IsConditionTrue(node.status.conditions, "Ready") &&
         MatchesSelector(node, SpecField(pod, "nodeSelector")) && ToleratesAll(node, SpecField(pod, "tolerations"));
}

}  // namespace

std::string WhyNoVolume(const Json& pod, const std::vector<std::shared_ptr<const kube::NodeView>>& nodes,
                        const AgentSilence& silence, Duration limit) {
  size_t candidates = 0, without = 0;
  std::string first;
  for (const auto& node : nodes) {
    if (!MayLand(*node, pod)) continue;
    ++candidates;
    const auto age = silence(node->meta.name);
    if (age && *age <= limit) continue;
    if (without++ == 0 || node->meta.name < std::string_view(first)) first = node->meta.name.str();
  }
  if (candidates == 0) return "no ready node fits the pod yet";
  if (without == 0) return {};
  return without == 1
             ? fmt::format("node {} has no live paceline-agent", first)
             : fmt::format("{} of {} nodes have no live paceline-agent, {} among them", without, candidates, first);
}

}  // namespace paceline::operator_
