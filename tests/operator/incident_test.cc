// From what agents report in their NodePlans to Incidents. The test plays the agents: it writes their alerts and
// answers for their tables over HTTP.
#include <atomic>

#include "analysis/tables_json.h"
#include "lib/net/http_server.h"
#include "tests/operator/operator_fixture.h"

namespace paceline::operator_ {
namespace {

using analysis::ProcessState;

// Rank 1 of two has ended in the middle of an operation; or all is well.
analysis::Tables TablesOfTwo(bool is_lost) {
  analysis::Tables tables;
  for (int rank : {0, 1}) {
    analysis::ProcessView process;
    process.host = "llama-g0-" + std::to_string(rank);
    process.world_rank = rank;
    process.state = is_lost && rank == 1 ? ProcessState::kDead : ProcessState::kRunning;
    if (process.state == ProcessState::kDead) process.ended_for = seconds(3);
    process.comms = {{.id = 7, .name = "dp", .rank = rank, .ranks = 2, .nodes = 2, .operations = 9}};
    if (is_lost && rank == 0) {
      process.calls = {{.kind = analysis::CallKind::kColl,
                        .comm = 0,
                        .index = 8,
                        .func = "AllReduce",
                        .count = 100,
                        .open_proxies = 1,
                        .proxies = 1,
                        .age = seconds(9),
                        .still = seconds(9)}};
    }
    tables.processes.push_back(process);
  }
  return tables;
}

class IncidentTest : public OperatorTest {
 protected:
  IncidentTest() {
    std::map<std::string, net::Handler> routes;
    routes["GET /v1/traces/"] = [this](const net::ServerRequest& request, Deadline) {
      asked_ = true;
      net::ServerResponse response;
      if (request.path != "/v1/traces/team/" + run_ + "/tables") {
        response.status = 404;
        return response;
      }
      response.body = analysis::WriteTables(TablesOfTwo(is_lost_)).dump();
      return response;
    };
    auto server = net::HttpServer::Start({.address = "127.0.0.1"}, std::move(routes), nullptr, clock_, *log_);
    EXPECT_TRUE(server.ok()) << server.status().ToString();
    agent_ = *std::move(server);
  }

  // A running job of two workers, on nodes n0 and n1.
  void StartJob() {
    const Json job = TrainingJob("llama");
    ASSERT_TRUE(Eventually([&] { return Exists(kube::kJobs, "llama-g0"); }));
    run_ = RunNameOf(job);
    for (int index : {0, 1}) {
      RunPod(MakePod(Get(kube::kJobs, "llama-g0"), index)["metadata"]["name"], "n" + std::to_string(index));
    }
    ASSERT_TRUE(Eventually([&] { return Phase(Get(kTrainingRuns, run_)) == "Running"; }));
  }

  // What the agent of n0 says of the run. That of n1 has said before that it traces the run, too, but not where it is.
  void Report(const Json& alerts) {
    PutPlan("n1", Json::array(), Json::object());
    PutPlan("n0", alerts, {{"agentAddress", "127.0.0.1:" + std::to_string(agent_->port())}});
  }
  void PutPlan(const std::string& node, const Json& alerts, Json status) {
    status["traces"] = Json::array({{{"namespace", "team"}, {"run", run_}, {"processes", 1}, {"alerts", alerts}}});
    server_.Put(kNodePlans, {{"apiVersion", api::kApiVersion},
                             {"kind", "NodePlan"},
                             {"metadata", {{"name", node}}},
                             {"spec", Json::object()},
                             {"status", std::move(status)}});
  }
  Json Lost() const {
    return Json::array({{{"kind", "ProcessLost"},
                         {"at", FormatRfc3339(at_)},
                         {"rank", 1},
                         {"detail", "ended with communicators open"}}});
  }
  Json Incident() {
    const std::vector<Json> all = server_.All(kIncidents);
    EXPECT_LE(all.size(), 1u);
    return all.empty() ? Json::object() : all[0];
  }

  const WallTime at_ = *ParseRfc3339("2026-01-02T03:04:05Z");
  std::string run_;
  std::atomic<bool> is_lost_ = true;
  std::atomic<bool> asked_ = false;
  std::unique_ptr<net::HttpServer> agent_;
};

TEST_F(IncidentTest, ALostProcessIsNamedWithItsPodAndNode) {
  auto replica = Start();
  StartJob();
  Report(Lost());
  ASSERT_TRUE(Eventually([&] { return Incident().contains("/status/verdict"_json_pointer); }));
  const Json incident = Incident();
  EXPECT_EQ(incident["spec"]["run"], run_);
  EXPECT_EQ(incident["spec"]["job"]["name"], "llama");
  EXPECT_EQ(incident["spec"]["trigger"]["kind"], "ProcessLost");
  EXPECT_EQ(incident["spec"]["trigger"]["node"], "n0");
  EXPECT_EQ(incident["metadata"]["ownerReferences"][0]["kind"], "TrainingRun");
  EXPECT_EQ(incident["status"]["state"], "Open");
  const Json& verdict = incident["status"]["verdict"];
  EXPECT_EQ(verdict["category"], "ProcessLost");
  EXPECT_EQ(verdict["ranks"], Json::array({1}));
  EXPECT_EQ(verdict["nodes"], Json::array({"n0"})) << "an agent speaks for its own node";
  EXPECT_NE(incident["status"].value("notVisible", Json()).dump().find("n1"), std::string::npos) << incident["status"];
  ASSERT_TRUE(Eventually([&] { return Get(kTrainingRuns, run_).contains("/status/incidents/0"_json_pointer); }));
  EXPECT_EQ(Get(kTrainingRuns, run_)["status"]["incidents"][0], incident["metadata"]["name"]);
  ASSERT_TRUE(Eventually([&] { return EventNotes("TrainingStalled").find("node n0") != std::string::npos; }))
      << EventNotes("TrainingStalled");
  EXPECT_NE(EventNotes("TrainingStalled").find("the gang has to start again"), std::string::npos)
      << "what to do about this cause";

  // An operator that starts in the middle of it makes nothing twice.
  replica.reset();
  replica = Start();
  Report(Json::array());
  ASSERT_TRUE(Eventually([&] { return Incident()["status"].value("state", "") == "Resolved"; }));
  EXPECT_TRUE(Incident()["status"].contains("resolvedAt"));
  EXPECT_EQ(Incident()["status"]["verdict"]["category"], "ProcessLost") << "what was found stays";
}

TEST_F(IncidentTest, AStallThatIsNoneMakesNothing) {
  is_lost_ = false;
  const auto replica = Start();
  StartJob();
  Json alerts = Lost();
  alerts[0]["kind"] = "Stall";
  Report(alerts);
  ASSERT_TRUE(Eventually([&] { return asked_.load(); }));
  EXPECT_TRUE(server_.All(kIncidents).empty());
  // The same alert goes on and turns out to be real.
  is_lost_ = true;
  ASSERT_TRUE(Eventually([&] { return Incident().contains("/status/verdict"_json_pointer); }));
  EXPECT_EQ(Incident()["spec"]["trigger"]["kind"], "Stall");
}

TEST_F(IncidentTest, TheEndOfTheRunIsTheEndOfTheIncident) {
  const auto replica = Start();
  StartJob();
  Report(Lost());
  ASSERT_TRUE(Eventually([&] { return Incident().contains("/status/verdict"_json_pointer); }));
  EndPod("llama-g0-1-abcde", 1);
  EndJob("llama-g0", "Failed");
  ASSERT_TRUE(Eventually([&] { return Incident()["status"].value("state", "") == "Resolved"; }));
}

}  // namespace
}  // namespace paceline::operator_
