#include "cli/cluster_facts.h"

#include <nlohmann/json.hpp>

#include "lib/api/codec.h"
#include "lib/api/names.h"

namespace paceline::cli {

using kube::Json;

namespace {

// The name that the operator gives its lease, in whatever namespace it runs.
constexpr const char* kLeaseName = "paceline-operator";

const kube::Resource kCsiDrivers{"storage.k8s.io", "v1", "csidrivers", "CSIDriver", false};

// The string at a path of keys, or "" when any of them is absent or of another type.
std::string StringAt(const Json& object, std::initializer_list<const char*> path) {
  const Json* at = &object;
  for (const char* key : path) {
    const auto found = at->is_object() ? at->find(key) : at->end();
    if (!at->is_object() || found == at->end()) return "";
    at = &*found;
  }
  return at->is_string() ? at->get<std::string>() : "";
}

// The array at a key of an object, or an empty one.
Json ArrayAt(const Json& object, const char* parent, const char* key) {
  const Json holder = object.value(parent, Json::object());
  Json list = holder.is_object() ? holder.value(key, Json::array()) : Json::array();
  return list.is_array() ? list : Json::array();
}

void ReadCrds(kube::Reader& reader, Deadline deadline, ClusterFacts& facts) {
  Result<kube::ObjectList> list = reader.List(kube::kCustomResourceDefinitions, {}, deadline);
  facts.crds_status = list.status();
  if (!list.ok()) return;
  for (const Json& item : list->items) facts.crd_names.push_back(StringAt(item, {"metadata", "name"}));
}

void ReadLease(kube::Reader& reader, Deadline deadline, ClusterFacts& facts) {
  Result<kube::ObjectList> list =
      reader.List(kube::kLeases, {.field_selector = std::string("metadata.name=") + kLeaseName}, deadline);
  facts.lease_status = list.status();
  if (!list.ok() || list->items.empty()) return;
  const Json& lease = list->items.front();
  facts.lease_holder = StringAt(lease, {"spec", "holderIdentity"});
  if (Result<WallTime> renewed = ParseRfc3339(StringAt(lease, {"spec", "renewTime"})); renewed.ok())
    facts.lease_renewed = *renewed;
}

void ReadWebhook(kube::Reader& reader, Deadline deadline, ClusterFacts& facts) {
  Result<kube::ObjectList> list = reader.List(kube::kMutatingWebhooks, {}, deadline);
  facts.webhook_status = list.status();
  if (!list.ok()) return;
  for (const Json& item : list->items) {
    const Json webhooks = item.value("webhooks", Json::array());
    for (const Json& webhook : webhooks) {
      if (!StringAt(webhook, {"name"}).ends_with(api::kGroup)) continue;
      facts.has_webhook = true;
      facts.webhook_has_ca = !StringAt(webhook, {"clientConfig", "caBundle"}).empty();
    }
  }
}

NodeSummary Summarize(const Json& node) {
  NodeSummary summary;
  summary.name = StringAt(node, {"metadata", "name"});
  summary.kubelet_version = StringAt(node, {"status", "nodeInfo", "kubeletVersion"});
  summary.container_runtime = StringAt(node, {"status", "nodeInfo", "containerRuntimeVersion"});
  const Json spec = node.value("spec", Json::object());
  summary.is_schedulable = !(spec.is_object() && spec.value("unschedulable", false));
  for (const Json& condition : ArrayAt(node, "status", "conditions")) {
    if (StringAt(condition, {"type"}) == "Ready") summary.is_ready = StringAt(condition, {"status"}) == "True";
  }
  return summary;
}

void ReadNodes(kube::Reader& reader, Deadline deadline, ClusterFacts& facts) {
  Result<kube::ObjectList> list = reader.List(kube::kNodes, {}, deadline);
  facts.nodes_status = list.status();
  if (!list.ok()) return;
  for (const Json& item : list->items) facts.nodes.push_back(Summarize(item));
}

void ReadPlans(kube::Reader& reader, Deadline deadline, ClusterFacts& facts) {
  const kube::Resource plans{std::string(api::kGroup), std::string(api::kVersion),
                             std::string(api::kNodePlanKind.plural), std::string(api::kNodePlanKind.kind), false};
  Result<kube::ObjectList> list = reader.List(plans, {}, deadline);
  facts.plans_status = list.status();
  if (!list.ok()) return;
  for (const Json& item : list->items) {
    Result<api::NodePlan> plan = api::FromJson<api::NodePlan>(item);
    if (plan.ok()) facts.plans.push_back(std::move(*plan));
  }
}

}  // namespace

ClusterFacts ReadClusterFacts(kube::Reader& reader, Deadline deadline) {
  ClusterFacts facts;
  ReadCrds(reader, deadline, facts);
  ReadLease(reader, deadline, facts);
  ReadWebhook(reader, deadline, facts);
  Result<Json> driver = reader.Get(kCsiDrivers, {"", std::string(api::kCsiDriver)}, deadline);
  facts.has_csi_driver = driver.ok();
  if (!driver.ok() && driver.status().code() != StatusCode::kNotFound) facts.csi_driver_status = driver.status();
  ReadNodes(reader, deadline, facts);
  ReadPlans(reader, deadline, facts);
  return facts;
}

}  // namespace paceline::cli
