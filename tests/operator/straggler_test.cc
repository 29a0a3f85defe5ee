// A StragglerPolicy from the paces that agents tell to the node that is cordoned. The test plays the agents: each node
// has one, which answers over HTTP.
#include <atomic>

#include "analysis/pace_json.h"
#include "lib/net/http_server.h"
#include "operator/straggler/straggler_names.h"
#include "tests/operator/operator_fixture.h"

namespace paceline::operator_ {
namespace {

constexpr int kNodeCount = 3, kRanksPerNode = 2;

class StragglerTest : public OperatorTest {
 protected:
  StragglerTest() {
    server_.AddResource(kStragglerPolicies);
    for (int node = 0; node < kNodeCount; ++node) {
      std::map<std::string, net::Handler> routes;
      routes["GET /v1/traces/"] = [this, node](const net::ServerRequest& request, Deadline) {
        net::ServerResponse response;
        ++asked_;
        if (request.path != "/v1/traces/team/llama-run/pace") response.status = 404;
        if (request.path == "/v1/traces/team/llama-run/pace") response.body = DumpJson(PacesOf(node));
        return response;
      };
      auto server = net::HttpServer::Start({.address = "127.0.0.1"}, std::move(routes), nullptr, clock_, *log_);
      EXPECT_TRUE(server.ok()) << server.status().ToString();
      agents_.push_back(*std::move(server));
    }
  }

  // The last 200 s of the ranks on one node: of 5 s 3 s are their own work, of a slow node 4 s.
  Json PacesOf(int node) const {
    std::vector<analysis::RankPace> ranks;
    const int64_t now = clock_.WallNow().time_since_epoch() / seconds(5) * 5;
    for (int i = 0; i < kRanksPerNode; ++i) {
      analysis::RankPace& rank = ranks.emplace_back();
      rank.world_rank = node * kRanksPerNode + i;
      rank.comms = {{7, true, false}};
      const seconds own(node == slow_node_ ? 4 : 3);
      for (int64_t start = now - 200; start < now && node != silent_node_; start += 5) {
        rank.windows.push_back({start, 50, own, seconds(5) - own, 0});
      }
    }
    return analysis::WritePaces(ranks);
  }

  // Three nodes with agents, a run that has ranks on all of them, and a job that names the policy "p".
  void StartRun() {
    Json job = TrainingJob("llama", {{"suspend", true}, {"stragglerPolicy", "p"}});
    Json names = Json::array();
    for (int node = 0; node < kNodeCount; ++node) {
      const std::string name = "n" + std::to_string(node);
      names.push_back(name);
      server_.Put(kube::kNodes, {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", name}}}});
      server_.Put(
          kNodePlans,
          {{"apiVersion", api::kApiVersion},
           {"kind", "NodePlan"},
           {"metadata", {{"name", name}}},
           {"spec", Json::object()},
           {"status",
            {{"agentAddress", "127.0.0.1:" + std::to_string(agents_[static_cast<size_t>(node)]->port())},
             {"traces", Json::array({{{"namespace", "team"}, {"run", "llama-run"}, {"processes", kRanksPerNode}}})}}}});
    }
    server_.Put(kTrainingRuns, {{"apiVersion", api::kApiVersion},
                                {"kind", "TrainingRun"},
                                {"metadata", {{"name", "llama-run"}, {"namespace", "team"}}},
                                {"spec",
                                 {{"job",
                                   {{"apiVersion", api::kApiVersion},
                                    {"kind", "TrainingJob"},
                                    {"name", "llama"},
                                    {"uid", job["metadata"]["uid"]}}},
                                  {"generation", 0}}},
                                {"status", {{"phase", "Running"}, {"nodes", names}}}});
  }
  Json MakePolicy(const char* action, Json status = Json::object(), const Json& more = Json::object()) {
    Json spec = {{"action", action}, {"detection", {{"window", "5s"}}}};
    spec.update(more);
    return server_.Put(kStragglerPolicies, {{"apiVersion", api::kApiVersion},
                                            {"kind", "StragglerPolicy"},
                                            {"metadata", {{"name", "p"}}},
                                            {"spec", std::move(spec)},
                                            {"status", std::move(status)}});
  }
  // As a user does; waits until it is gone.
  void DeletePolicy() {
    const auto transport = server_.Connect();
    const auto client = kube::NewRestClient(*transport, clock_);
    ASSERT_TRUE(client->Delete(kStragglerPolicies, {"", "p"}, {}, Deadline::After(clock_, seconds(5))).ok());
    ASSERT_TRUE(Eventually([&] { return !server_.Find(kStragglerPolicies, {"", "p"}).ok(); }));
  }
  Json Node(const std::string& name) { return Get(kube::kNodes, name, ""); }
  Json Policy() { return Get(kStragglerPolicies, "p", ""); }
  bool IsOut(const std::string& name) {
    const Json node = Node(name);
    return node.contains("/spec/unschedulable"_json_pointer) && node["spec"]["unschedulable"] == true;
  }
  static bool IsUntouched(const Json& node) {
    return !node.contains("/spec/taints"_json_pointer) && !node.contains("/spec/unschedulable"_json_pointer) &&
           !node.contains("/metadata/annotations"_json_pointer);
  }
  Json Incident() {
    const std::vector<Json> all = server_.All(kIncidents);
    return all.empty() ? Json::object() : all[0];
  }
  std::string OfLastAction(const char* field) {
    const Json incident = Incident();
    if (!incident.contains("/status/actions/0"_json_pointer)) return "";
    return incident["status"]["actions"].back().value(field, "");
  }
  std::string LastAction() { return OfLastAction("action"); }
  std::string LastResult() { return OfLastAction("result"); }

  // What the agents of all nodes do about probes: those that are asked for are done at once.
  void PlayProbes() {
    const auto transport = server_.Connect();
    const auto client = kube::NewRestClient(*transport, clock_);
    for (int node = 0; node < kNodeCount; ++node) {
      const std::string name = "n" + std::to_string(node);
      const Json plan = Get(kNodePlans, name, "");
      const int64_t asked = plan.value("/spec/probe/round"_json_pointer, 0);
      if (asked > plan.value("/status/probe/round"_json_pointer, 0)) FindByProbe(*client, name, asked);
    }
  }
  // The status alone, as agents write it: the operator changes the rest meanwhile.
  void FindByProbe(kube::Client& client, const std::string& node, int64_t round) {
    const std::string now = FormatRfc3339(clock_.WallNow());
    const double value = node == "n" + std::to_string(weak_node_) ? 200 : 800;
    const Json probe = {{"state", "Done"},
                        {"round", round},
                        {"method", 1},
                        {"finishedAt", now},
                        {"figures", Json::array({{{"name", "cpuOneThread"}, {"unit", "Mop/s"}, {"value", value}}})}};
    const auto written = client.Patch(kNodePlans, {"", node}, kube::PatchType::kMerge,
                                      {{"status", {{"heartbeat", now}, {"probe", probe}}}}, {.subresource = "status"},
                                      Deadline::After(clock_, seconds(5)));
    EXPECT_TRUE(written.ok()) << written.status().ToString();
  }
  ::testing::AssertionResult EventuallyProbed(const std::function<bool()>& is_met) {
    return Eventually([&] {
      PlayProbes();
      return is_met();
    });
  }
  std::string ProbeOfActed() { return Policy().value("/status/actedNodes/0/probe"_json_pointer, ""); }
  std::string ProbeAction() {
    std::string last;
    for (const Json& action : Incident().value("/status/actions"_json_pointer, Json::array())) {
      if (action["action"] == "Probe") last = action["result"];
    }
    return last;
  }

  std::atomic<int> weak_node_ = -1;  // whose processors are slow
  std::atomic<int> slow_node_ = 1;
  std::atomic<int> silent_node_ = -1;
  std::atomic<int> asked_ = 0;
  std::vector<std::unique_ptr<net::HttpServer>> agents_;
};

TEST_F(StragglerTest, CordonsTheSlowNodeAndPutsItBackWithThePolicy) {
  const auto replica = Start();
  StartRun();
  MakePolicy("Cordon");
  ASSERT_TRUE(Eventually([&] { return IsOut("n1"); })) << Policy();
  EXPECT_TRUE(IsUntouched(Node("n0")) && IsUntouched(Node("n2")));
  const Json node = Node("n1");
  EXPECT_EQ(node["spec"]["taints"][0]["key"], "paceline.dev/straggler");
  ASSERT_TRUE(Eventually([&] { return LastAction() == "Cordon"; })) << Incident();
  const Json incident = Incident();
  EXPECT_EQ(server_.All(kIncidents).size(), 1u);
  EXPECT_EQ(incident["spec"]["run"], "llama-run");
  EXPECT_EQ(incident["status"]["verdict"]["nodes"], Json::array({"n1"}));
  EXPECT_EQ(incident["status"]["verdict"]["ranks"], Json::array({2, 3}));
  EXPECT_EQ(incident["status"]["verdict"]["category"], "Compute");
  EXPECT_NE(replica->MetricsPage().find("paceline_incidents_total{category=\"Compute\"} 1\n"), std::string::npos);
  EXPECT_EQ(incident["status"]["evidence"][0]["name"], "slowdown");
  EXPECT_NEAR(incident["status"]["evidence"][0]["value"].get<double>(), 1.25, 0.01);
  const Json mark = Json::parse(node["metadata"]["annotations"]["paceline.dev/straggler"].get<std::string>());
  EXPECT_EQ(mark["policy"], "p");
  EXPECT_EQ(mark["incident"], "team/" + incident["metadata"]["name"].get<std::string>());
  EXPECT_EQ(Policy()["status"]["actedNodes"][0]["node"], "n1");
  EXPECT_TRUE(Eventually([&] { return EventNotes("StragglerTakenOut").find("cordoned") != std::string::npos; }));
  // What the run says.
  ASSERT_TRUE(Eventually([&] { return Get(kTrainingRuns, "llama-run")["status"].contains("slowdown"); }));
  const Json run = Get(kTrainingRuns, "llama-run")["status"];
  EXPECT_NEAR(run["slowdown"].get<double>(), 1.25, 0.01);
  EXPECT_LT(run["slowdownError"].get<double>(), 0.05);
  ASSERT_TRUE(Eventually([&] { return Get(kTrainingRuns, "llama-run")["status"].contains("incidents"); }));
  EXPECT_EQ(EventNotes("TrainingSlow"), "");

  ASSERT_EQ(Policy()["metadata"]["finalizers"], Json::array({"paceline.dev/straggler-nodes"}));
  DeletePolicy();
  EXPECT_FALSE(IsOut("n1"));
  EXPECT_FALSE(Node("n1").contains("/spec/taints/0"_json_pointer));
  EXPECT_EQ(Incident()["status"]["state"], "Resolved");
}

TEST_F(StragglerTest, ToObserveTouchesNothing) {
  auto replica = Start();
  StartRun();
  MakePolicy("Observe");
  ASSERT_TRUE(Eventually([&] { return LastAction() == "Refused"; })) << Policy();
  for (const char* name : {"n0", "n1", "n2"}) EXPECT_TRUE(IsUntouched(Node(name))) << Node(name);
  EXPECT_FALSE(Policy()["metadata"].contains("finalizers"));
  EXPECT_TRUE(Eventually([&] { return EventNotes("SlowNode").find("n1") != std::string::npos; }));
  EXPECT_EQ(Incident()["status"]["state"], "Open");
  ASSERT_TRUE(Eventually([&] { return Get(kTrainingRuns, "llama-run")["status"].contains("slowdown"); }));
  // The next operator finds the node well: that ends the incident.
  replica.reset();
  slow_node_ = -1;
  replica = Start();
  ASSERT_TRUE(Eventually([&] { return Incident()["status"]["state"] == "Resolved"; })) << Incident();
  ASSERT_TRUE(Eventually([&] { return Get(kTrainingRuns, "llama-run")["status"].value("slowdown", 0.0) == 1; }));
  // And one that hears of two of three nodes only says nothing at all.
  replica.reset();
  silent_node_ = 0;
  replica = Start();
  ASSERT_TRUE(Eventually([&] { return !Get(kTrainingRuns, "llama-run")["status"].contains("slowdown"); }));
  EXPECT_EQ(server_.All(kIncidents).size(), 1u);
}

TEST_F(StragglerTest, AnIncidentEndsWithItsPolicy) {
  auto replica = Start();
  StartRun();
  MakePolicy("Observe");
  ASSERT_TRUE(Eventually([&] { return LastAction() == "Refused"; })) << Policy();
  replica.reset();
  server_.Erase(kStragglerPolicies, {"", "p"});  // while nobody looks
  replica = Start();
  ASSERT_TRUE(Eventually([&] { return Incident()["status"]["state"] == "Resolved"; })) << Incident();
}

TEST_F(StragglerTest, WhatAKilledOperatorWasAboutToDoTheNextDoes) {
  server_.Inject({.method = "PATCH", .target_part = "/nodes/n1", .times = -1, .status = 403});
  auto replica = Start();
  StartRun();
  MakePolicy("Cordon");
  ASSERT_TRUE(Eventually([&] { return Policy().contains("/status/actedNodes/0"_json_pointer); })) << Policy();
  replica.reset();
  EXPECT_TRUE(IsUntouched(Node("n1")));
  EXPECT_FALSE(Policy().value("/status/actedNodes/0/applied"_json_pointer, false));
  server_.ClearFaults();
  replica = Start();
  ASSERT_TRUE(Eventually([&] { return IsOut("n1"); })) << Policy();
  ASSERT_TRUE(Eventually([&] { return Policy().value("/status/actedNodes/0/applied"_json_pointer, false); }));
  EXPECT_EQ(Policy()["status"]["recentActions"].size(), 1u);
  EXPECT_EQ(server_.All(kIncidents).size(), 1u);
}

TEST_F(StragglerTest, WhatTheServerRefusesIsTriedAgain) {
  server_.Inject({.method = "PATCH", .target_part = "/nodes/n1", .times = 1, .status = 422});
  const auto replica = Start();
  StartRun();
  MakePolicy("Cordon");
  EXPECT_TRUE(Eventually([&] { return IsOut("n1"); })) << Policy();
  EXPECT_EQ(Policy()["status"]["recentActions"].size(), 1u);
}

TEST_F(StragglerTest, ANodeThatIsWellAgainComesBackWithoutAVeto) {
  auto replica = Start();
  StartRun();
  MakePolicy("Cordon", Json::object(), {{"recoveryPeriod", "1s"}});
  ASSERT_TRUE(Eventually([&] { return IsOut("n1"); })) << Policy();
  replica.reset();
  slow_node_ = -1;
  replica = Start();
  ASSERT_TRUE(Eventually([&] { return LastAction() == "Release"; })) << Policy() << Incident();
  EXPECT_FALSE(IsOut("n1"));
  EXPECT_FALSE(Node("n1").contains("/spec/taints/0"_json_pointer));
  const int asked = asked_;
  ASSERT_TRUE(Eventually([&] { return asked_ >= asked + kNodeCount; }));  // a look later
  EXPECT_EQ(Policy().value("/status/vetoes"_json_pointer, Json::array()), Json::array());
  EXPECT_EQ(Policy().value("/status/actedNodes"_json_pointer, Json::array()), Json::array());
}

TEST_F(StragglerTest, WhatOthersHaveDoneToTheNodeStays) {
  StartRun();
  Json node = Node("n1");
  node["metadata"].erase("resourceVersion");
  node["spec"]["unschedulable"] = true;
  const Json cordoned = server_.Put(kube::kNodes, node);
  const auto replica = Start();
  MakePolicy("Cordon");
  ASSERT_TRUE(Eventually([&] { return LastAction() == "Refused"; })) << Policy();
  EXPECT_EQ(LastResult().substr(0, 15), "AlreadyCordoned");
  EXPECT_EQ(Node("n1"), cordoned);
  // Put back by whoever took it out, it is the policy's; then somebody else wants it out as well.
  node["spec"].erase("unschedulable");
  server_.Put(kube::kNodes, node);
  ASSERT_TRUE(Eventually([&] { return LastAction() == "Cordon"; })) << Incident();
  node = Node("n1");
  node["metadata"].erase("resourceVersion");
  node["metadata"]["labels"]["dgxc.nvidia.com/nvsentinel-state"] = "quarantined";
  server_.Put(kube::kNodes, node);
  DeletePolicy();
  EXPECT_TRUE(IsOut("n1"));
  EXPECT_FALSE(Node("n1").contains("/spec/taints/0"_json_pointer));
}

TEST_F(StragglerTest, ActsWhenAPersonHasApproved) {
  const auto replica = Start();
  StartRun();
  MakePolicy("Cordon", Json::object(), {{"approval", "Manual"}});
  ASSERT_TRUE(Eventually([&] { return LastAction() == "Refused"; })) << Policy();
  EXPECT_EQ(LastResult().substr(0, 18), "WaitingForApproval");
  EXPECT_TRUE(IsUntouched(Node("n1")));
  Json incident = Incident();
  incident["metadata"].erase("resourceVersion");
  incident["metadata"]["annotations"]["paceline.dev/approve"] = "true";
  server_.Put(kIncidents, incident);
  EXPECT_TRUE(Eventually([&] { return IsOut("n1"); })) << Policy();
}

TEST_F(StragglerTest, AJobIsAskedToStartAnewOnceItsNodeIsOut) {
  auto replica = Start();
  StartRun();
  MakePolicy("Taint", Json::object(), {{"restartJob", true}});
  const auto wish = [&] { return Get(kTrainingJobs, "llama")["metadata"].value("annotations", Json::object()); };
  ASSERT_TRUE(Eventually([&] { return wish().value("paceline.dev/restart", "") == "0"; })) << Incident();
  EXPECT_NE(wish()["paceline.dev/restart-reason"].get<std::string>().find("n1"), std::string::npos);
  ASSERT_TRUE(Eventually([&] { return LastAction() == "RestartJob"; })) << Incident();
  const size_t noted = Incident()["status"]["actions"].size();
  // The next operator finds it asked, and says nothing more.
  replica.reset();
  const int asked = asked_;
  replica = Start();
  ASSERT_TRUE(Eventually([&] { return asked_ >= asked + kNodeCount; }));
  replica.reset();
  EXPECT_EQ(Incident()["status"]["actions"].size(), noted) << Incident();
  EXPECT_FALSE(Incident()["status"].contains("conditions"));
}

TEST_F(StragglerTest, OfAForeignJobTheRestartIsAdvised) {
  const auto replica = Start();
  StartRun();
  const Json job = server_.Put(
      kube::kJobs, {{"apiVersion", "batch/v1"},
                    {"kind", "Job"},
                    {"metadata",
                     {{"name", "foreign"},
                      {"namespace", "team"},
                      {"annotations", {{"paceline.dev/enabled", "true"}, {"paceline.dev/straggler-policy", "p"}}}}},
                    {"spec", {{"suspend", true}, {"template", {{"spec", {{"containers", Json::array()}}}}}}}});
  Json run = Get(kTrainingRuns, "llama-run");
  run["spec"]["job"] = {
      {"apiVersion", "batch/v1"}, {"kind", "Job"}, {"name", "foreign"}, {"uid", job["metadata"]["uid"]}};
  server_.Put(kTrainingRuns, run);
  MakePolicy("Taint", Json::object(), {{"restartJob", true}});
  ASSERT_TRUE(Eventually([&] { return LastAction() == "AdviseRestart"; })) << Incident() << Policy();
  EXPECT_EQ(Incident()["status"]["conditions"][0]["type"], "RestartAdvised");
  EXPECT_TRUE(Eventually([&] { return EventNotes("RestartAdvised").find("team/foreign") != std::string::npos; }));
}

TEST_F(StragglerTest, OfAJobThatNamesNoPolicyNobodyIsBlamed) {
  const auto replica = Start();
  StartRun();
  MakePolicy("Cordon", Json::object(), {{"nodeSelector", {{"pool", "other"}}}});
  Json job = Get(kTrainingJobs, "llama");
  job["metadata"].erase("resourceVersion");
  job["spec"].erase("stragglerPolicy");
  server_.Put(kTrainingJobs, job);
  ASSERT_TRUE(Eventually([&] { return Get(kTrainingRuns, "llama-run")["status"].contains("slowdown"); }));
  ASSERT_TRUE(Eventually([&] { return Policy().contains("/status/conditions"_json_pointer); }));
  EXPECT_EQ(Policy().value("/status/selectedNodes"_json_pointer, 0), 0);
  EXPECT_TRUE(server_.All(kIncidents).empty());
  EXPECT_TRUE(IsUntouched(Node("n1")));
}

TEST_F(StragglerTest, WhatWasIntendedBeforeACrashIsDoneOnce) {
  StartRun();
  const std::string now = FormatRfc3339(clock_.WallNow());
  MakePolicy("Cordon", {{"actedNodes", Json::array({{{"node", "n1"}, {"action", "Cordon"}, {"since", now}}})},
                        {"recentActions", Json::array({{{"node", "n1"}, {"action", "Cordon"}, {"at", now}}})}});
  const auto replica = Start();
  ASSERT_TRUE(Eventually([&] {
    const Json acted = Policy().value("/status/actedNodes"_json_pointer, Json::array());
    return IsOut("n1") && !acted.empty() && acted[0].value("applied", false);
  })) << Policy();
  EXPECT_EQ(Policy()["status"]["recentActions"].size(), 1u);
  EXPECT_EQ(Policy()["status"]["actedNodes"].size(), 1u);
}

TEST_F(StragglerTest, AnUncordonByHandStays) {
  const auto replica = Start();
  StartRun();
  MakePolicy("Cordon");
  ASSERT_TRUE(Eventually([&] { return IsOut("n1"); }));
  ASSERT_TRUE(Eventually([&] { return Policy().value("/status/actedNodes/0/applied"_json_pointer, false); }))
      << Policy();
  Json node = Node("n1");
  node["spec"].erase("unschedulable");
  node["metadata"].erase("resourceVersion");
  server_.Put(kube::kNodes, node);
  ASSERT_TRUE(Eventually([&] { return Policy().contains("/status/vetoes/0"_json_pointer); }));
  ASSERT_TRUE(Eventually([&] { return !Node("n1").contains("/spec/taints/0"_json_pointer); }));
  EXPECT_EQ(Policy()["status"]["vetoes"][0]["node"], "n1");
  ASSERT_TRUE(Eventually([&] { return LastAction() == "Refused"; }));
  EXPECT_FALSE(IsOut("n1"));
}

TEST_F(StragglerTest, AProbeThatFailsKeepsTheNodeOutAndOneThatPassesPutsItBack) {
  StartRun();
  {
    // The others were idle once.
    const auto transport = server_.Connect();
    const auto client = kube::NewRestClient(*transport, clock_);
    for (const char* name : {"n0", "n2"}) FindByProbe(*client, name, 1);
  }
  weak_node_ = 1;
  auto replica = Start();
  MakePolicy("Cordon", Json::object(),
             {{"coolDown", "1s"},
              {"probe",
               {{"enabled", true},
                {"checks", Json::array({"Cpu"})},
                {"putBackAfterPass", true},
                {"minimumNodes", 2},
                {"period", "1s"}}}});
  ASSERT_TRUE(EventuallyProbed([&] { return ProbeOfActed() == "Failed"; })) << Policy();
  ASSERT_TRUE(EventuallyProbed([&] { return !ProbeAction().empty(); })) << Incident();
  EXPECT_EQ(ProbeAction(), "Failed: cpuOneThread 200 Mop/s, where 2 like nodes have 800");
  EXPECT_TRUE(IsOut("n1"));
  const Json evidence = Incident()["status"]["evidence"].back();
  EXPECT_EQ(evidence["name"], "probe.cpuOneThread");
  EXPECT_EQ(evidence["usual"], 800);
  EXPECT_TRUE(Eventually([&] { return EventNotes("ProbeFailed").find("200 Mop/s") != std::string::npos; }));
  // The next operator goes on where this one was, and says nothing twice.
  replica.reset();
  const size_t noted = Incident()["status"]["actions"].size();
  const int64_t round = Policy()["status"]["actedNodes"][0]["probeRound"];
  replica = Start();
  ASSERT_TRUE(EventuallyProbed([&] { return Policy()["status"]["actedNodes"][0]["probeRound"] > round; })) << Policy();
  EXPECT_EQ(Incident()["status"]["actions"].size(), noted) << Incident();
  EXPECT_TRUE(IsOut("n1"));
  weak_node_ = -1;
  // It still comes late, so more is noted afterwards.
  const auto is_released = [&] {
    const Json actions = Incident().value("/status/actions"_json_pointer, Json::array());
    return std::any_of(actions.begin(), actions.end(), [](const Json& action) {
      return action["action"] == "Release" && action["result"] == "ProbePassed: done";
    });
  };
  ASSERT_TRUE(EventuallyProbed(is_released)) << Policy() << Incident();
  EXPECT_EQ(ProbeAction().substr(0, 7), "Passed:");
  EXPECT_TRUE(EventuallyProbed([&] { return Policy().contains("/status/putBackByProbe/0"_json_pointer); })) << Policy();
  EXPECT_FALSE(Policy().contains("/status/vetoes/0"_json_pointer)) << "what the policy does is no person's wish";
}

TEST_F(StragglerTest, ANodeIsNotProbedWhileItsPodsTrain) {
  const auto replica = Start();
  StartRun();
  server_.Put(
      kube::kPods,
      {{"apiVersion", "v1"},
       {"kind", "Pod"},
       {"metadata", {{"name", "llama-0"}, {"namespace", "team"}, {"labels", {{"paceline.dev/run", "llama-run"}}}}},
       {"spec", {{"nodeName", "n1"}}},
       {"status", {{"phase", "Running"}}}});
  MakePolicy("Cordon", Json::object(), {{"probe", {{"enabled", true}}}});
  ASSERT_TRUE(EventuallyProbed([&] {
    return ProbeOfActed() == "Pending" && Get(kNodePlans, "n0", "").contains("/status/probe"_json_pointer) &&
           Get(kNodePlans, "n2", "").contains("/status/probe"_json_pointer);
  })) << Policy();
  EXPECT_FALSE(Get(kNodePlans, "n1", "").contains("/spec/probe"_json_pointer));
  server_.Erase(kube::kPods, {"team", "llama-0"});
  EXPECT_TRUE(EventuallyProbed([&] { return ProbeOfActed() == "Unknown"; })) << Policy();
  EXPECT_TRUE(IsOut("n1"));
}

TEST_F(StragglerTest, ANodeWhoseAgentWaitsHoldsNoOtherUp) {
  StartRun();
  Json plan = Get(kNodePlans, "n0", "");
  plan["metadata"].erase("resourceVersion");
  plan["spec"]["probe"]["round"] = 1;
  plan["status"]["heartbeat"] = FormatRfc3339(clock_.WallNow());
  plan["status"]["probe"] = {{"state", "Waiting"}, {"message", "pods of training runs are on the node"}, {"round", 0}};
  server_.Put(kNodePlans, plan);
  const auto replica = Start();
  MakePolicy("Observe", Json::object(), {{"probe", {{"enabled", true}}}});
  EXPECT_TRUE(Eventually([&] { return Get(kNodePlans, "n1", "").contains("/spec/probe/round"_json_pointer); }));
}

TEST_F(StragglerTest, SilenceIsNoVerdict) {
  silent_node_ = 0;
  const auto replica = Start();
  StartRun();
  MakePolicy("Cordon");
  ASSERT_TRUE(Eventually([&] { return asked_.load() >= 4; }));
  ASSERT_TRUE(Eventually([&] { return Policy().contains("/status/selectedNodes"_json_pointer); }));
  EXPECT_FALSE(Get(kTrainingRuns, "llama-run")["status"].contains("slowdown"));
  EXPECT_TRUE(server_.All(kIncidents).empty());
  for (const char* name : {"n0", "n1", "n2"}) EXPECT_TRUE(IsUntouched(Node(name)));
}

}  // namespace
}  // namespace paceline::operator_
