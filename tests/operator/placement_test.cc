#include "operator/webhook/placement.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;
using std::chrono::seconds;

struct PlannedNode {
  const char* name;
  bool is_ready = true;
  bool is_cordoned = false;
  const char* pool = "a";
  const char* taint = "";                  // key of a NoSchedule taint
  std::optional<int> silence_seconds = 5;  // of its agent; empty: none
};

std::string Decide(const std::vector<PlannedNode>& nodes, const Json& spec) {
  std::vector<std::shared_ptr<const kube::NodeView>> views;
  for (const PlannedNode& node : nodes) {
    kube::NodeView view;
    view.meta.name = node.name;
    view.meta.labels.Set("pool", node.pool);
    view.spec.is_unschedulable = node.is_cordoned;
    if (node.taint[0] != 0) view.spec.taints.push_back({node.taint, "", "NoSchedule", {}});
    view.status.conditions.push_back({"Ready", node.is_ready ? "True" : "False", "", "", {}});
    views.push_back(std::make_shared<const kube::NodeView>(view));
  }
  const auto silence = [&](std::string_view name) -> std::optional<Duration> {
    for (const PlannedNode& node : nodes) {
      if (name == node.name && node.silence_seconds) return seconds(*node.silence_seconds);
    }
    return std::nullopt;
  };
  return WhyNoVolume({{"spec", spec}}, views, silence, seconds(120));
}

TEST(WhyNoVolume, AsksForALiveAgentWhereverThePodMayLand) {
  struct Case {
    const char* name;
    std::vector<PlannedNode> nodes;
    Json spec;
    bool is_allowed;
  };
  const Json any = Json::object();
  const Json pool_b = {{"nodeSelector", {{"pool", "b"}}}};
  const Json tolerant = {{"tolerations", Json::array({{{"key", "gpu"}, {"operator", "Exists"}}})}};
  const Json tolerates_all = {{"tolerations", Json::array({{{"operator", "Exists"}}})}};
  const Json tolerates_value = {
      {"tolerations", Json::array({{{"key", "gpu"}, {"value", "x"}, {"effect", "NoSchedule"}}})}};
  const PlannedNode dead{.name = "dead", .silence_seconds = std::nullopt};
  PlannedNode dead_gpu = dead;
  dead_gpu.taint = "gpu";
  const Case cases[] = {
      {"all alive", {{.name = "n1"}, {.name = "n2"}}, any, true},
      {"no nodes", {}, any, false},
      {"one without", {{.name = "n1"}, dead}, any, false},
      {"one silent", {{.name = "n1"}, {.name = "n2", .silence_seconds = 121}}, any, false},
      {"the one without is not ready",
       {{.name = "n1"}, {.name = "n2", .is_ready = false, .silence_seconds = std::nullopt}},
       any,
       true},
      {"... is cordoned",
       {{.name = "n1"}, {.name = "n2", .is_cordoned = true, .silence_seconds = std::nullopt}},
       any,
       true},
      {"... is in another pool", {dead, {.name = "n2", .pool = "b"}}, pool_b, true},
      {"... is in the pod's pool",
       {{.name = "n1"}, {.name = "n2", .pool = "b", .silence_seconds = std::nullopt}},
       pool_b,
       false},
      {"... has a taint", {{.name = "n1"}, dead_gpu}, any, true},
      {"... has a taint that the pod tolerates", {{.name = "n1"}, dead_gpu}, tolerant, false},
      {"... by tolerating everything", {{.name = "n1"}, dead_gpu}, tolerates_all, false},
      {"... not with another value", {{.name = "n1"}, dead_gpu}, tolerates_value, true},
      {"malformed selector", {{.name = "n1"}}, {{"nodeSelector", {{"pool", 7}}}}, false},
  };
  for (const Case& c : cases) {
    const std::string why = Decide(c.nodes, c.spec);
    EXPECT_EQ(why.empty(), c.is_allowed) << c.name << ": " << why;
  }
  EXPECT_NE(Decide({{.name = "n1"}, dead}, any).find("dead"), std::string::npos);
}

}  // namespace
}  // namespace paceline::operator_
