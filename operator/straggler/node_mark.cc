#include "operator/straggler/node_mark.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/api/names.h"
#include "lib/base/json.h"
#include "operator/straggler/straggler_names.h"

namespace paceline::operator_ {
namespace {

constexpr std::string_view kControlPlaneLabels[] = {"node-role.kubernetes.io/control-plane",
                                                    "node-role.kubernetes.io/master"};
constexpr std::string_view kMaintenanceConditions[] = {"DrainInProgress", "Drained", "MaintenanceInProgress",
                                                       "GracefulNodeShutdownInProgress"};
constexpr std::string_view kHyperPodLabel = "sagemaker.amazonaws.com/node-health-status";
constexpr std::string_view kManagedByNvSentinel = "k8saas.nvidia.com/ManagedByNVSentinel";

// Keys of labels, annotations or taints that begin so.
struct ForeignKey {
  std::string_view prefix;
  const char* writer;
};
constexpr ForeignKey kForeignKeys[] = {{"dgxc.nvidia.com/nvsentinel-state", "NVSentinel"},
                                       {"quarantineHealthEvent", "NVSentinel"},
                                       {"remediation.medik8s.io/", "NodeHealthCheck"}};
constexpr std::string_view kExcludedFromMedik8s = "remediation.medik8s.io/exclude-from-remediation";

const char* ActionText(api::StragglerAction action) {
  return action == api::StragglerAction::kCordon ? "Cordon" : "Taint";
}

bool HasLabels(const kube::StringMap& labels, const std::map<std::string, std::string>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& label) {
    return labels.Contains(label.first) && labels.Get(label.first) == label.second;
  });
}

const char* WriterOfKey(std::string_view key) {
  if (key == kExcludedFromMedik8s) return nullptr;
  for (const ForeignKey& foreign : kForeignKeys) {
    if (key.substr(0, foreign.prefix.size()) == foreign.prefix) return foreign.writer;
  }
  return nullptr;
}

std::string WhyExcluded(const kube::NodeView& node, const api::StragglerPolicySpec& spec) {
  for (const std::string_view label : kControlPlaneLabels) {
    if (node.meta.labels.Contains(label)) return "it is a node of the control plane";
  }
  if (const kube::SharedString* reason = node.meta.annotations.Find(kExcludeAnnotation)) {
    return "excluded by its annotation: " + reason->str();
  }
  for (const auto& [label, value] : spec.exclude_nodes) {
    if (node.meta.labels.Contains(label) && node.meta.labels.Get(label) == value)
      return "excluded by its label " + label;
  }
  return {};
}

Json TaintsWithoutOurs(const Json& node) {
  Json kept = Json::array();
  const Json* taints = FindJson(node, "spec.taints");
  if (taints == nullptr || !taints->is_array()) return kept;
  for (const Json& taint : *taints) {
    if (JsonStringOr(taint, "key", "").value_or("") != kStragglerKey) kept.push_back(taint);
  }
  return kept;
}

bool IsUnschedulable(const Json& node) { return JsonBoolOr(node, "spec.unschedulable", false).value_or(false); }

std::optional<NodeMark> MarkOf(const Json& node) {
  const Json* text = FindJsonAt(node, {"metadata", "annotations", std::string(kStragglerKey)});
  return text != nullptr && text->is_string() ? ParseMark(text->get_ref<const std::string&>()) : std::nullopt;
}

Json PatchOf(const Json& node, Json annotation, Json taints) {
  Json patch = {{"metadata",
                 {{"resourceVersion", JsonStringOr(node, "metadata.resourceVersion", "").value_or("")},
                  {"annotations", {{std::string(kStragglerKey), std::move(annotation)}}}}}};
  patch["spec"]["taints"] = taints.empty() ? Json() : std::move(taints);
  return patch;
}

}  // namespace

std::string RenderMark(const NodeMark& mark) {
  Json json = {{"policy", mark.policy}, {"action", ActionText(mark.action)}, {"incident", mark.incident}};
  if (mark.at) json["at"] = FormatRfc3339(*mark.at);
  return DumpJson(json);
}

std::optional<NodeMark> ParseMark(std::string_view annotation) {
  const Result<Json> json = ParseJson(annotation);
  if (!json.ok()) return std::nullopt;
  const Result<std::string> policy = JsonString(*json, "policy");
  const Result<std::string> action = JsonString(*json, "action");
  if (!policy.ok() || policy->empty() || !action.ok()) return std::nullopt;
  NodeMark mark;
  mark.policy = *policy;
  mark.action = *action == "Cordon" ? api::StragglerAction::kCordon : api::StragglerAction::kTaint;
  const Result<std::string> incident = JsonStringOr(*json, "incident", "");
  if (incident.ok()) mark.incident = *incident;
  const Result<std::string> at = JsonStringOr(*json, "at", "");
  if (!at.ok()) return mark;
  if (const Result<WallTime> time = ParseRfc3339(*at); time.ok()) mark.at = *time;
  return mark;
}

std::string OtherWriterOf(const kube::NodeView& node) {
  const auto scan = [](const kube::StringMap& map) -> const char* {
    for (const auto& [key, value] : map) {
      if (const char* writer = WriterOfKey(key)) return writer;
    }
    return nullptr;
  };
  if (const char* writer = scan(node.meta.labels)) return writer;
  if (const char* writer = scan(node.meta.annotations)) return writer;
  for (const kube::Taint& taint : node.spec.taints) {
    if (const char* writer = WriterOfKey(taint.key)) return writer;
  }
  const kube::StringMap& labels = node.meta.labels;
  if (labels.Contains(kManagedByNvSentinel) && labels.Get(kManagedByNvSentinel) != "false") return "NVSentinel";
  if (labels.Contains(kHyperPodLabel) && labels.Get(kHyperPodLabel) != "Schedulable") return "SageMaker HyperPod";
  for (const std::string_view type : kMaintenanceConditions) {
    if (kube::IsConditionTrue(node.status.conditions, type)) return "maintenance (condition " + std::string(type) + ")";
  }
  return {};
}

PolicyNode ReadPolicyNode(const kube::NodeView& node, const api::StragglerPolicySpec& spec) {
  PolicyNode out;
  out.name = node.meta.name.str();
  out.is_selected = HasLabels(node.meta.labels, spec.node_selector);
  out.excluded = WhyExcluded(node, spec);
  out.other_writer = OtherWriterOf(node);
  out.is_unschedulable = node.spec.is_unschedulable;
  out.has_taint = std::any_of(node.spec.taints.begin(), node.spec.taints.end(),
                              [](const kube::Taint& taint) { return taint.key == kStragglerKey; });
  out.mark = ParseMark(node.meta.annotations.Get(kStragglerKey));
  return out;
}

Json ActionPatch(const Json& node, const NodeMark& mark) {
  const std::optional<NodeMark> present = MarkOf(node);
  // With our mark it has been done, even if a person has put the node back since.
  if (present || IsUnschedulable(node)) return {};
  Json taints = TaintsWithoutOurs(node);
  taints.push_back({{"key", kStragglerKey}, {"value", "slow"}, {"effect", "NoSchedule"}});
  Json patch = PatchOf(node, RenderMark(mark), std::move(taints));
  if (mark.action == api::StragglerAction::kCordon) patch["spec"]["unschedulable"] = true;
  return patch;
}

Json ReleasePatch(const Json& node, std::string_view policy, Uncordon uncordon) {
  const std::optional<NodeMark> present = MarkOf(node);
  if (!present || present->policy != policy) return {};
  Json patch = PatchOf(node, Json(), TaintsWithoutOurs(node));
  const bool is_ours = present->action == api::StragglerAction::kCordon && IsUnschedulable(node);
  if (uncordon == Uncordon::kIfOurs && is_ours) patch["spec"]["unschedulable"] = Json();
  return patch;
}

}  // namespace paceline::operator_
