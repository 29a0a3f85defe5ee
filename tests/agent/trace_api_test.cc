#include "agent/trace_api.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/filesystem.h"

namespace paceline::agent {
namespace {

class TraceApiTest : public ::testing::Test {
 protected:
  TraceApiTest() {
    CollectorOptions options;
    options.folders = [] { return std::vector<TraceFolder>{{"/nonexistent", "team", "uid"}}; };
    collector_ = std::make_unique<Collector>(std::move(options), files_, clock_, *metrics_);
    routes_ = TraceRoutes(*collector_, [this] { return device_faults_; });
  }
  net::ServerResponse Get(const std::string& path, const std::string& query = "") {
    net::ServerRequest request;
    request.method = "GET";
    request.path = path;
    request.query = query;
    const bool is_list = path == "/v1/traces";
    return routes_.at(is_list ? "GET /v1/traces" : "GET /v1/traces/")(request, Deadline::Infinite());
  }

  RealFileSystem files_;
  RealClock clock_;
  const std::unique_ptr<MetricsRegistry> metrics_ = MetricsRegistry::Create();
  std::vector<analysis::DeviceFault> device_faults_;
  std::unique_ptr<Collector> collector_;
  std::map<std::string, net::Handler> routes_;
};

TEST_F(TraceApiTest, SaysThatNothingIsTraced) {
  collector_->Sample();
  const net::ServerResponse list = Get("/v1/traces");
  EXPECT_EQ(list.status, 200);
  EXPECT_EQ(Json::parse(list.body)["runs"], Json::array());
  EXPECT_EQ(Get("/v1/traces/team/llama/tables").status, 404);
  EXPECT_NE(Get("/v1/traces/team/llama/tables").body.find("team/llama"), std::string::npos);
  EXPECT_EQ(Get("/v1/traces/team/llama/records").status, 404);
  EXPECT_EQ(Get("/v1/traces/team/llama/pace").status, 404);
}

TEST_F(TraceApiTest, RefusesWhatIsNotThere) {
  for (const char* path : {"/v1/traces/", "/v1/traces/team", "/v1/traces/team/llama", "/v1/traces/team/llama/all"}) {
    EXPECT_EQ(Get(path).status, 404) << path;
  }
  for (const char* query : {"since=", "since=x", "since=1x", "since=99999999999999999999", "after=1", "since=1&x=2"}) {
    EXPECT_EQ(Get("/v1/traces/team/llama/records", query).status, 400) << query;
    EXPECT_EQ(Get("/v1/traces/team/llama/pace", query).status, 400) << query;
  }
  EXPECT_EQ(Get("/v1/traces/team/llama/records", "since=1").status, 404);
}

}  // namespace
}  // namespace paceline::agent
