#include "operator/page/job_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/api/codec.h"
#include "lib/api/incident.h"
#include "tests/fakes/simulated_clock.h"
#include "tests/job_page/page_data.h"
#include "tests/job_page/review_transport.h"

namespace paceline::operator_ {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class JobPageTest : public ::testing::Test {
 protected:
  JobPageTest() { Fill(data_, 4); }

  net::ServerResponse Get(const std::string& path, const std::string& query, const std::string& token) {
    net::ServerRequest request;
    request.method = "GET";
    request.path = path;
    request.query = query;
    if (!token.empty()) request.headers["authorization"] = "Bearer " + token;
    return routes_.at("GET " + path)(request, Deadline::After(clock_, std::chrono::seconds(5)));
  }

  fakes::SimulatedClock clock_;
  ReviewTransport reviews_;
  PageAccess access_{reviews_, clock_};
  PageData data_;
  const std::map<std::string, net::Handler> routes_ =
      JobPageRoutes({data_.runs, data_.incidents, data_.nodes, access_,
                     [](const kube::ObjectKey& run, Deadline) { return "{\"of\":\"" + run.ToString() + "\"}"; }});
};

TEST(PageData, IsAsTheApiServerWouldHaveIt) {
  const auto run = api::FromJson<api::TrainingRun>(RunOf("team", "llama-0", 1000), api::UnknownFields::kReject);
  ASSERT_TRUE(run.ok()) << run.status().ToString();
  EXPECT_EQ(api::JoinErrors(api::Validate(*run)), "");
  const auto incident = api::FromJson<api::Incident>(IncidentOf("team", "llama-0"), api::UnknownFields::kReject);
  ASSERT_TRUE(incident.ok()) << incident.status().ToString();
  EXPECT_EQ(api::JoinErrors(api::Validate(*incident)), "");
}

TEST_F(JobPageTest, GivesThePageToAnybodyAndLoadsNothingFromElsewhere) {
  for (const char* path : {"/", "/page.js", "/page.css"}) {
    const net::ServerResponse response = Get(path, "", "");
    EXPECT_EQ(response.status, 200) << path;
    EXPECT_THAT(response.headers.at("Content-Security-Policy"), HasSubstr("default-src 'none'; script-src 'self'"));
    EXPECT_THAT(response.body, Not(HasSubstr("http://www.google"))) << path;
    EXPECT_THAT(response.body, Not(HasSubstr("https://"))) << path;
  }
  EXPECT_EQ(reviews_.requests, 0);
}

TEST_F(JobPageTest, ShowsEachTokenWhatItsUserMayRead) {
  struct Case {
    const char* path;
    const char* query;
    const char* token;
    int status;
  };
  const Case cases[] = {
      {"/api/runs", "namespace=team", "", 401},
      {"/api/runs", "namespace=team", "stolen", 401},
      {"/api/runs", "namespace=team", "team-token", 200},
      {"/api/runs", "namespace=other", "team-token", 403},
      {"/api/runs", "namespace=", "team-token", 403},
      {"/api/runs", "", "admin-token", 200},
      {"/api/run", "namespace=team&name=llama-0", "team-token", 200},
      {"/api/run", "namespace=team&name=llama-0", "", 401},
      {"/api/run", "namespace=other&name=secret-0", "team-token", 403},
      {"/api/run", "namespace=team&name=gone", "team-token", 404},
      {"/api/run", "namespace=team", "team-token", 400},
      {"/api/run", "namespace=%zz&name=x", "admin-token", 400},
      {"/api/ranks", "namespace=team&name=llama-0", "team-token", 200},
      {"/api/ranks", "namespace=team&name=llama-0", "stolen", 401},
      {"/api/ranks", "namespace=other&name=secret-0", "team-token", 403},
      {"/api/ranks", "namespace=team&name=gone", "team-token", 404},
      {"/api/nodes", "", "team-token", 403},
      {"/api/nodes", "", "admin-token", 200},
  };
  for (const Case& c : cases) {
    const net::ServerResponse response = Get(c.path, c.query, c.token);
    EXPECT_EQ(response.status, c.status) << c.path << "?" << c.query << " " << c.token << ": " << response.body;
    if (c.status != 200) {
      EXPECT_THAT(response.body, Not(HasSubstr("llama"))) << c.query;
    }
  }
}

TEST_F(JobPageTest, ListsRunsOfTheNamespace) {
  const Json all = *ParseJson(Get("/api/runs", "", "admin-token").body);
  EXPECT_EQ(all["total"], 3);
  const Json team = *ParseJson(Get("/api/runs", "namespace=team", "team-token").body);
  ASSERT_EQ(team["runs"].size(), 2u);
  EXPECT_EQ(team["runs"][0]["job"], "llama");
  EXPECT_EQ(team["runs"][0]["startup"]["kind"], "Full");
  EXPECT_FALSE(team["runs"][0].contains("status")) << "a list does not carry every worker";
}

TEST_F(JobPageTest, GivesARunWithItsIncidentsToThoseWhoMaySeeThem) {
  const Json mine = *ParseJson(Get("/api/run", "namespace=team&name=llama-0", "team-token").body);
  EXPECT_EQ(mine["run"]["status"]["workers"].size(), 4u);
  EXPECT_EQ(mine["incidents"][0]["status"]["verdict"]["category"], "Network");
  EXPECT_EQ(Get("/api/ranks", "namespace=team&name=llama-0", "team-token").body, "{\"of\":\"team/llama-0\"}");
  EXPECT_THAT(mine["verdicts"]["Network"].get<std::string>(), HasSubstr("switch port"));
  EXPECT_THAT(mine["advice"]["Image"]["action"].get<std::string>(), HasSubstr("prefetch"));
  const Json runs_only = *ParseJson(Get("/api/run", "namespace=team&name=llama-0", "runs-token").body);
  EXPECT_EQ(runs_only["run"]["metadata"]["name"], "llama-0");
  EXPECT_TRUE(runs_only["incidents"].empty());
}

TEST_F(JobPageTest, NamesNodesThatAreOutAndWhy) {
  const Json nodes = *ParseJson(Get("/api/nodes", "", "admin-token").body);
  ASSERT_EQ(nodes["nodes"].size(), 1u);
  EXPECT_EQ(nodes["nodes"][0]["name"], "node-0");
  EXPECT_EQ(nodes["nodes"][0]["taints"][0]["key"], "paceline.dev/straggler");
  EXPECT_THAT(nodes["nodes"][0]["reasons"]["paceline.dev/straggler"].get<std::string>(), HasSubstr("gpu-nodes"));
  EXPECT_FALSE(nodes["nodes"][0]["reasons"].contains("other"));
}

TEST_F(JobPageTest, AsksTheApiServerOnceInAWhileAndNeverGuesses) {
  EXPECT_EQ(Get("/api/runs", "namespace=team", "team-token").status, 200);
  EXPECT_EQ(reviews_.requests, 2) << "who, and whether";
  EXPECT_EQ(Get("/api/runs", "namespace=team", "team-token").status, 200);
  EXPECT_EQ(reviews_.requests, 2) << "both are known for a while";
  reviews_.status = 500;
  EXPECT_EQ(Get("/api/runs", "namespace=team", "runs-token").status, 503) << "nobody can say";
  clock_.Advance(std::chrono::seconds(31));
  EXPECT_EQ(Get("/api/runs", "namespace=team", "team-token").status, 503) << "no longer known";
  reviews_.status = 403;
  EXPECT_EQ(Get("/api/runs", "namespace=team", "team-token").status, 503) << "we may not ask: no verdict on the user";
  reviews_.status = 201;
  EXPECT_EQ(Get("/api/runs", "namespace=team", "team-token").status, 200);
}

TEST_F(JobPageTest, TakesNoOddHeaders) {
  for (const std::string& token : {std::string(" "), std::string(20'000, 'x')}) {
    EXPECT_EQ(Get("/api/runs", "", token).status, 401);
  }
  net::ServerRequest request;
  request.path = "/api/runs";
  request.headers["Authorization"] = "Basic YWRtaW46YWRtaW4=";
  EXPECT_EQ(routes_.at("GET /api/runs")(request, Deadline::After(clock_, std::chrono::seconds(5))).status, 401);
}

}  // namespace
}  // namespace paceline::operator_
