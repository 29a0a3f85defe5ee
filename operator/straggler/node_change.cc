#include "operator/straggler/node_change.h"

#include <nlohmann/json.hpp>
#include <string>

#include "lib/kube/views.h"
#include "operator/straggler/node_mark.h"
#include "operator/straggler/straggler_names.h"

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

constexpr int kTries = 5;

// Null when there is nothing to do.
Result<Json> PatchFor(const Json& object, const api::StragglerPolicy& policy, const PolicyStep& step, WallTime now) {
  ASSIGN_OR_RETURN(const kube::NodeView view, kube::ViewFromJson<kube::NodeView>(object));
  const PolicyNode node = ReadPolicyNode(view, policy.spec);
  if (step.kind == StepKind::kAct) {
    const bool may_be_touched = node.is_selected && node.excluded.empty() && node.other_writer.empty();
    if (!may_be_touched) return Json();
    return ActionPatch(object, {policy.metadata.name, step.action, step.incident, now});
  }
  // Whoever takes care of it since then may want it cordoned as well.
  const bool uncordons = step.kind == StepKind::kRelease && node.other_writer.empty();
  return ReleasePatch(object, policy.metadata.name, uncordons ? Uncordon::kIfOurs : Uncordon::kNo);
}

}  // namespace

Result<std::optional<PolicyNode>> FetchPolicyNode(kube::Reader& reader, const std::string& node,
                                                  const api::StragglerPolicySpec& spec, Deadline deadline) {
  const Result<Json> object = reader.Get(kube::kNodes, {"", node}, deadline);
  if (object.status().code() == StatusCode::kNotFound) return std::optional<PolicyNode>();
  if (!object.ok()) return object.status();
  ASSIGN_OR_RETURN(const kube::NodeView view, kube::ViewFromJson<kube::NodeView>(*object));
  return std::optional<PolicyNode>(ReadPolicyNode(view, spec));
}

Result<bool> ChangeNode(kube::Client& client, const api::StragglerPolicy& policy, const PolicyStep& step, WallTime now,
                        Deadline deadline) {
  const kube::ObjectKey key{"", step.node};
  Status lost;
  for (int tries = 0; tries < kTries; ++tries) {
    const Result<Json> node = client.Get(kube::kNodes, key, deadline);
    if (node.status().code() == StatusCode::kNotFound) return false;
    if (!node.ok()) return node.status();
    ASSIGN_OR_RETURN(const Json patch, PatchFor(*node, policy, step, now));
    if (patch.is_null()) return false;
    const Status written = client
                               .Patch(kube::kNodes, key, kube::PatchType::kMerge, patch,
                                      {.field_manager = std::string(kStragglerManager)}, deadline)
                               .status();
    if (written.ok()) return true;
    if (written.code() != StatusCode::kAborted) return written;
    lost = written;
  }
  return lost;
}

}  // namespace paceline::operator_
