#include "operator/straggler/node_mark.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;
using api::StragglerAction;

constexpr WallTime kMarked{std::chrono::hours(500'000)};

Json Node() {
  return {{"metadata", {{"name", "n1"}, {"resourceVersion", "7"}, {"labels", {{"pool", "gpu"}}}}},
          {"spec", {{"taints", Json::array({{{"key", "nvidia.com/gpu"}, {"effect", "NoSchedule"}}})}}}};
}

PolicyNode Read(const Json& node, const api::StragglerPolicySpec& spec = {}) {
  const Result<kube::NodeView> view = kube::ViewFromJson<kube::NodeView>(node);
  EXPECT_TRUE(view.ok()) << view.status().ToString();
  return ReadPolicyNode(*view, spec);
}

// What the API server makes of a merge patch.
Json Patched(Json node, const Json& patch) {
  node.merge_patch(patch);
  node["metadata"]["resourceVersion"] = "8";
  return node;
}

const NodeMark kMark{"slow-nodes", StragglerAction::kCordon, "team/llama-0-abc", kMarked};

TEST(NodeMark, ReadsWhatItWrites) {
  const std::optional<NodeMark> read = ParseMark(RenderMark(kMark));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->policy, kMark.policy);
  EXPECT_EQ(read->action, kMark.action);
  EXPECT_EQ(read->incident, kMark.incident);
  EXPECT_EQ(read->at, kMark.at);
  for (const char* text : {"", "x", "{}", "[]", R"({"policy":"p"})", R"({"policy":1,"action":"Cordon"})",
                           R"({"policy":"","action":"Cordon"})"}) {
    EXPECT_FALSE(ParseMark(text).has_value()) << text;
  }
}

TEST(NodeMark, SurvivesTruncatedAndFlippedBytes) {
  const std::string good = RenderMark(kMark);
  for (size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(ParseMark(good.substr(0, size)).has_value());
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string text = good;
    text[random() % text.size()] = static_cast<char>(random());
    ParseMark(text);
  }
}

TEST(NodeMark, ACordonAndItsReleaseLeaveTheNodeAsItWas) {
  const Json out = Patched(Node(), ActionPatch(Node(), kMark));
  EXPECT_EQ(out["spec"]["unschedulable"], true);
  EXPECT_EQ(out["spec"]["taints"].size(), 2u);
  const PolicyNode read = Read(out);
  EXPECT_TRUE(read.is_unschedulable && read.has_taint && read.mark);
  EXPECT_TRUE(ActionPatch(out, kMark).is_null()) << "once is enough";
  const Json patch = ReleasePatch(out, "slow-nodes", Uncordon::kIfOurs);
  EXPECT_EQ(patch["metadata"]["resourceVersion"], "8") << "somebody may have written it since";
  const Json back = Patched(out, patch);
  EXPECT_EQ(back["spec"], Node()["spec"]);
  EXPECT_TRUE(back["metadata"]["annotations"].empty());
  EXPECT_TRUE(ReleasePatch(back, "slow-nodes", Uncordon::kIfOurs).is_null());
}

TEST(NodeMark, ATaintLeavesTheNodeSchedulable) {
  const Json out = Patched(Node(), ActionPatch(Node(), {"p", StragglerAction::kTaint, "", kMarked}));
  EXPECT_FALSE(out["spec"].contains("unschedulable"));
  // Somebody else cordons it then: that stays.
  Json cordoned = out;
  cordoned["spec"]["unschedulable"] = true;
  const Json back = Patched(cordoned, ReleasePatch(cordoned, "p", Uncordon::kIfOurs));
  EXPECT_EQ(back["spec"]["unschedulable"], true);
  EXPECT_EQ(back["spec"]["taints"].size(), 1u);
}

TEST(NodeMark, NeverTouchesWhatOthersDid) {
  Json cordoned = Node();
  cordoned["spec"]["unschedulable"] = true;
  EXPECT_TRUE(ActionPatch(cordoned, kMark).is_null());
  EXPECT_TRUE(ReleasePatch(cordoned, "slow-nodes", Uncordon::kIfOurs).is_null());
  const Json out = Patched(Node(), ActionPatch(Node(), kMark));
  EXPECT_TRUE(ReleasePatch(out, "other", Uncordon::kIfOurs).is_null());
  const Json cleared = Patched(out, ReleasePatch(out, "slow-nodes", Uncordon::kNo));
  EXPECT_EQ(cleared["spec"]["unschedulable"], true);
}

TEST(PolicyNode, KnowsWhoIsSelectedAndWhoIsNot) {
  api::StragglerPolicySpec spec;
  EXPECT_TRUE(Read(Node(), spec).is_selected);
  spec.node_selector = {{"pool", "gpu"}};
  EXPECT_TRUE(Read(Node(), spec).is_selected);
  spec.node_selector["zone"] = "a";
  EXPECT_FALSE(Read(Node(), spec).is_selected);
  spec = {};
  spec.exclude_nodes = {{"pool", "gpu"}, {"zone", "a"}};
  EXPECT_NE(Read(Node(), spec).excluded.find("pool"), std::string::npos);
  EXPECT_EQ(Read(Node()).excluded, "");
  Json node = Node();
  node["metadata"]["annotations"]["paceline.dev/straggler-exclude"] = "benchmarks";
  EXPECT_NE(Read(node).excluded.find("benchmarks"), std::string::npos);
  node = Node();
  node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = "";
  EXPECT_NE(Read(node).excluded, "");
}

TEST(PolicyNode, KnowsWhoElseTakesCareOfIt) {
  const struct {
    const char* path;
    Json value;
    const char* writer;
  } cases[] = {{"/metadata/labels/dgxc.nvidia.com~1nvsentinel-state", "quarantined", "NVSentinel"},
               {"/metadata/annotations/quarantineHealthEventIsCordoned", "True", "NVSentinel"},
               {"/metadata/labels/k8saas.nvidia.com~1ManagedByNVSentinel", "true", "NVSentinel"},
               {"/metadata/labels/k8saas.nvidia.com~1ManagedByNVSentinel", "false", ""},
               {"/metadata/annotations/remediation.medik8s.io~1x", "y", "NodeHealthCheck"},
               {"/metadata/labels/remediation.medik8s.io~1exclude-from-remediation", "true", ""},
               {"/spec/taints",
                Json::array({{{"key", "remediation.medik8s.io/self-node-remediation"}, {"effect", "NoSchedule"}}}),
                "NodeHealthCheck"},
               {"/metadata/labels/sagemaker.amazonaws.com~1node-health-status", "UnschedulablePendingReboot",
                "SageMaker HyperPod"},
               {"/metadata/labels/sagemaker.amazonaws.com~1node-health-status", "Schedulable", ""},
               {"/status/conditions", Json::array({{{"type", "MaintenanceInProgress"}, {"status", "True"}}}),
                "maintenance (condition MaintenanceInProgress)"},
               {"/status/conditions", Json::array({{{"type", "MaintenanceInProgress"}, {"status", "False"}}}), ""},
               {"/metadata/labels/pool", "x", ""}};
  for (const auto& c : cases) {
    Json node = Node();
    node[Json::json_pointer(c.path)] = c.value;
    EXPECT_EQ(Read(node).other_writer, c.writer) << c.path;
  }
}

}  // namespace
}  // namespace paceline::operator_
