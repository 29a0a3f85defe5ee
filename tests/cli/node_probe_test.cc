#include "cli/node_probe.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paceline::cli {
namespace {

api::NodePlan PlanOf(const std::string& name, const std::string& address, size_t jobs) {
  api::NodePlan plan;
  plan.metadata.name = name;
  plan.status.agent_address = address;
  plan.spec.jobs.resize(jobs);
  return plan;
}

TEST(NodeProbe, AsksForOneMoreThanWasAskedForOrDone) {
  api::NodePlan plan = PlanOf("n1", "10.0.0.1:1", 0);
  EXPECT_EQ(NextProbe(plan, {}, {}).round, 1);
  plan.spec.probe = api::ProbeRequest{4, {}, {}};
  EXPECT_EQ(NextProbe(plan, {}, {}).round, 5);
  plan.status.probe.emplace().round = 9;  // the plan was made anew
  EXPECT_EQ(NextProbe(plan, {}, {}).round, 10);
  EXPECT_EQ(NextProbe(plan, {}, {api::ProbeCheck::kDisk}).checks, std::vector{api::ProbeCheck::kDisk});
}

TEST(NodeProbe, MeasuresTheNetworkWithIdleNodesOnly) {
  const api::NodePlan plan = PlanOf("n1", "10.0.0.1:1", 0);
  const std::vector<api::NodePlan> plans = {plan,
                                            PlanOf("n2", "10.0.0.2:1", 1),
                                            PlanOf("n3", "", 0),
                                            PlanOf("n4", "10.0.0.4:1", 0),
                                            PlanOf("n5", "10.0.0.5:1", 0),
                                            PlanOf("n6", "10.0.0.6:1", 0),
                                            PlanOf("n7", "10.0.0.7:1", 0)};
  std::vector<std::string> names;
  for (const api::ProbePeer& peer : NextProbe(plan, plans, {}).peers) names.push_back(peer.node + "=" + peer.address);
  EXPECT_EQ(names, (std::vector<std::string>{"n4=10.0.0.4:1", "n5=10.0.0.5:1", "n6=10.0.0.6:1"}));
}

TEST(NodeProbe, ShowsFiguresAndWhatIsMissing) {
  api::NodePlan plan = PlanOf("n1", "", 0);
  api::ProbeStatus& probe = plan.status.probe.emplace();
  probe.round = 2;
  probe.figures = {{"memoryTriad", 17309.136, "MB/s", std::nullopt, "8 threads"},
                   {"networkRoundTrip", 41.237, "us", std::nullopt, "from n2"}};
  probe.missing = {{api::ProbeCheck::kGpu, api::ProbeGap::kNotThere, "no driver"},
                   {api::ProbeCheck::kDisk, api::ProbeGap::kFailed, "disk full"}};
  EXPECT_EQ(RenderTable(ProbeTable(plan)),
            "MEASURED          VALUE   UNIT  DETAIL\n"
            "memoryTriad       17309   MB/s  8 threads\n"
            "networkRoundTrip  41.24   us    from n2\n"
            "Gpu               none    -     no driver\n"
            "Disk              failed  -     disk full\n");
  const nlohmann::json value = ProbeValue(plan);
  EXPECT_EQ(value["node"], "n1");
  EXPECT_EQ(value["probe"]["round"], 2);
  EXPECT_EQ(value["probe"]["figures"][1]["value"], 41.237);
  EXPECT_TRUE(ProbeValue(PlanOf("n2", "", 0))["probe"].is_null());
}

}  // namespace
}  // namespace paceline::cli
