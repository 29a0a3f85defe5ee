#include "cli/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "lib/api/names.h"

namespace paceline::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

const WallTime kNow = WallTime(1767323045s);

ClusterFacts Healthy() {
  ClusterFacts facts;
  facts.server_version = "v1.34.4";
  for (const api::KindInfo& kind : api::kAllKinds)
    facts.crd_names.push_back(std::string(kind.plural) + ".paceline.dev");
  facts.lease_holder = "operator-1";
  facts.lease_renewed = kNow - 2s;
  facts.has_webhook = facts.webhook_has_ca = facts.has_csi_driver = true;
  facts.nodes = {{.name = "n1", .is_ready = true}};
  api::NodePlan plan;
  plan.metadata.name = "n1";
  plan.status.agent_version = "0.1.0";
  plan.status.heartbeat = kNow - 1min;
  plan.status.facts = api::NodeFacts{.kernel = "6.12.1", .erofs = true, .fuse = true};
  facts.plans = {plan};
  return facts;
}

const CheckResult* Find(const std::vector<CheckResult>& checks, const std::string& subject) {
  for (const CheckResult& check : checks) {
    if (check.subject == subject) return &check;
  }
  return nullptr;
}

TEST(Diagnose, AHealthyClusterHasNothingToSay) {
  for (const CheckResult& check : Diagnose(Healthy(), "0.1.0", kNow)) {
    EXPECT_EQ(check.level, CheckLevel::kOk) << check.subject << ": " << check.finding;
    EXPECT_EQ(check.advice, "");
  }
}

TEST(Diagnose, EachFaultIsFoundAndComesWithAdvice) {
  struct Case {
    const char* name;
    std::function<void(ClusterFacts&)> break_it;
    const char* subject;
    CheckLevel level;
    const char* finding;
  };
  const Case cases[] = {
      {"no CRDs", [](ClusterFacts& f) { f.crd_names.clear(); }, "CRDs", CheckLevel::kFail, "none is installed"},
      {"old CRDs", [](ClusterFacts& f) { f.crd_names.pop_back(); }, "CRDs", CheckLevel::kFail, "missing: incidents"},
      {"no lease", [](ClusterFacts& f) { f.lease_holder.reset(); }, "operator", CheckLevel::kFail, "has never led"},
      {"lease given back", [](ClusterFacts& f) { f.lease_holder = ""; }, "operator", CheckLevel::kFail,
       "no replica leads"},
      {"dead leader", [](ClusterFacts& f) { f.lease_renewed = kNow - 5min; }, "operator", CheckLevel::kFail,
       "renewed its lease 5m ago"},
      {"no webhook", [](ClusterFacts& f) { f.has_webhook = false; }, "webhook", CheckLevel::kWarn, "is not installed"},
      {"no CA", [](ClusterFacts& f) { f.webhook_has_ca = false; }, "webhook", CheckLevel::kFail, "no CA"},
      {"no driver", [](ClusterFacts& f) { f.has_csi_driver = false; }, "CSI driver", CheckLevel::kFail,
       "not registered"},
      {"node down", [](ClusterFacts& f) { f.nodes[0].is_ready = false; }, "node n1", CheckLevel::kWarn, "is not Ready"},
      {"no plan", [](ClusterFacts& f) { f.plans.clear(); }, "node n1", CheckLevel::kFail, "has no NodePlan"},
      {"silent agent", [](ClusterFacts& f) { f.plans[0].status.heartbeat.reset(); }, "node n1", CheckLevel::kFail,
       "has not reported"},
      {"dead agent", [](ClusterFacts& f) { f.plans[0].status.heartbeat = kNow - 1h; }, "node n1", CheckLevel::kFail,
       "last reported 60m ago"},
      {"no FUSE", [](ClusterFacts& f) { f.plans[0].status.facts->fuse = false; }, "node n1", CheckLevel::kWarn,
       "kernel 6.12.1"},
      {"old agent", [](ClusterFacts& f) { f.plans[0].status.agent_version = "0.0.9"; }, "node n1", CheckLevel::kWarn,
       "kernel 6.12.1"},
      {"no right", [](ClusterFacts& f) { f.lease_status = PermissionDeniedError("leases is forbidden"); }, "operator",
       CheckLevel::kWarn, "could not be read"},
      {"no right on nodes", [](ClusterFacts& f) { f.nodes_status = PermissionDeniedError("x"); }, "nodes",
       CheckLevel::kWarn, "could not be read"},
  };
  for (const Case& c : cases) {
    ClusterFacts facts = Healthy();
    c.break_it(facts);
    const std::vector<CheckResult> checks = Diagnose(facts, "0.1.0", kNow);
    const CheckResult* check = Find(checks, c.subject);
    ASSERT_NE(check, nullptr) << c.name;
    EXPECT_EQ(check->level, c.level) << c.name;
    EXPECT_THAT(check->finding, HasSubstr(c.finding)) << c.name;
    EXPECT_NE(check->advice, "") << c.name;
  }
}

TEST(RenderChecks, PutsTheAdviceBelowTheFindingAndCounts) {
  ClusterFacts facts = Healthy();
  facts.has_csi_driver = false;
  const std::string text = RenderChecks(Diagnose(facts, "0.1.0", kNow));
  EXPECT_THAT(text, HasSubstr("FAIL  CSI driver  csi.paceline.dev is not registered\n"));
  EXPECT_THAT(text, HasSubstr("-> pods with its volumes wait: install the chart with agent.enabled=true\n"));
  EXPECT_THAT(text, HasSubstr("5 ok, 0 to look at, 1 broken\n"));
  EXPECT_EQ(ChecksValue(Diagnose(facts, "0.1.0", kNow))[4]["level"], "fail");
}

}  // namespace
}  // namespace paceline::cli
