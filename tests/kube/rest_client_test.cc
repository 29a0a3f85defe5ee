// Tests of lib/kube/rest_client.h and lib/kube/errors.h.
#include "lib/kube/rest_client.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "lib/kube/errors.h"
#include "tests/fakes/simulated_clock.h"
#include "tests/kube/scripted_transport.h"
#include "tests/kube/wire_builders.h"

namespace paceline::kube {
namespace {

using namespace std::chrono_literals;

TEST(ApiErrors, MapStatusAndReasonToACode) {
  const struct {
    int code;
    const char* reason;
    StatusCode expected;
  } cases[] = {
      {404, "NotFound", StatusCode::kNotFound},
      {409, "AlreadyExists", StatusCode::kAlreadyExists},
      {409, "Conflict", StatusCode::kAborted},
      {410, "Expired", StatusCode::kAborted},
      {410, "Gone", StatusCode::kAborted},
      {400, "BadRequest", StatusCode::kInvalidArgument},
      {422, "Invalid", StatusCode::kInvalidArgument},
      {413, "RequestEntityTooLarge", StatusCode::kInvalidArgument},
      {415, "UnsupportedMediaType", StatusCode::kInvalidArgument},
      {401, "Unauthorized", StatusCode::kPermissionDenied},
      {403, "Forbidden", StatusCode::kPermissionDenied},
      {429, "TooManyRequests", StatusCode::kUnavailable},
      {500, "InternalError", StatusCode::kUnavailable},
      {503, "ServiceUnavailable", StatusCode::kUnavailable},
      {504, "Timeout", StatusCode::kDeadlineExceeded},
  };
  for (const auto& c : cases) {
    const std::string body = R"({"kind":"Status","status":"Failure","message":"said","reason":")" +
                             std::string(c.reason) + R"(","code":)" + std::to_string(c.code) + "}";
    const Status status = ToStatus(net::HttpResponse{.status = c.code, .headers = {}, .body = body}, "get pods a/b");
    EXPECT_EQ(status.code(), c.expected) << c.code << " " << c.reason;
    EXPECT_EQ(status.message(), "get pods a/b: said");
  }
  EXPECT_TRUE(ToStatus(net::HttpResponse{.status = 201, .headers = {}, .body = ""}, "x").ok());
}

TEST(ApiErrors, KeepTheServersTextAndItsCauses) {
  const ApiStatus status =
      ParseApiStatus(409, R"({"kind":"Status","code":409,"reason":"Conflict","message":"Apply failed",
      "details":{"retryAfterSeconds":3,"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"x\"","field":".spec.a"}]}})");
  EXPECT_EQ(ToStatus(status, "patch jobs.batch a/b").message(),
            "patch jobs.batch a/b: Apply failed (.spec.a: conflict with \"x\")");
  EXPECT_EQ(status.retry_after_seconds, 3);
  EXPECT_EQ(ToStatus(ParseApiStatus(502, "<html>\nBad gateway"), "x").message(), "x: <html>");
  EXPECT_EQ(ToStatus(ParseApiStatus(503, ""), "x").message(), "x: HTTP 503");
  EXPECT_TRUE(IsResourceVersionTooLarge(ParseApiStatus(
      504, R"({"kind":"Status","code":504,"reason":"Timeout","message":"Too large resource version: 9, current: 5",
      "details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]}})")));
  const ApiStatus expired =
      ParseApiStatusProtobuf(BytesField(3, "too old") + BytesField(4, "Expired") + VarintField(6, 410));
  EXPECT_TRUE(IsExpired(expired));
  EXPECT_EQ(expired.message, "too old");
}

class RestClientTest : public testing::Test {
 protected:
  Deadline Soon() { return Deadline::After(clock_, 30s); }

  fakes::SimulatedClock clock_;
  ScriptedTransport transport_{clock_};
  std::unique_ptr<Client> client_ = NewRestClient(transport_, clock_);
};

TEST_F(RestClientTest, BuildsTheUrlsOfTheApi) {
  for (int i = 0; i < 7; ++i) transport_.Add({.body = "{}"});
  const Json job = {{"metadata", {{"name", "j"}, {"namespace", "a"}}}};
  ASSERT_TRUE(client_->Get(kNodes, {"", "n1"}, Soon()).ok());
  ASSERT_TRUE(client_->Get(kJobs, {"a", "x/y"}, Soon()).ok());
  ASSERT_TRUE(client_->Create(kJobs, job, {.field_manager = "paceline run", .dry_run = true}, Soon()).ok());
  ASSERT_TRUE(client_->Update(kJobs, job, {.subresource = "status"}, Soon()).ok());
  ASSERT_TRUE(
      client_->Patch(kJobs, {"a", "j"}, PatchType::kApply, job, {.field_manager = "m", .force = true}, Soon()).ok());
  ASSERT_TRUE(client_->Patch(kJobs, {"a", "j"}, PatchType::kMerge, job, {.force = true}, Soon()).ok());
  ASSERT_TRUE(client_
                  ->Delete(kPods, {"a", "p"},
                           {.uid_precondition = "u", .propagation_policy = "Background", .grace_period_seconds = 0},
                           Soon())
                  .ok());
  EXPECT_EQ(
      transport_.AwaitRequests(7),
      (std::vector<std::string>{"GET /api/v1/nodes/n1", "GET /apis/batch/v1/namespaces/a/jobs/x%2Fy",
                                "POST /apis/batch/v1/namespaces/a/jobs?fieldManager=paceline%20run&dryRun=All",
                                "PUT /apis/batch/v1/namespaces/a/jobs/j/status",
                                "PATCH /apis/batch/v1/namespaces/a/jobs/j?fieldManager=m&force=true",
                                "PATCH /apis/batch/v1/namespaces/a/jobs/j", "DELETE /api/v1/namespaces/a/pods/p"}));
  const Json options = Json::parse(transport_.bodies().back());
  EXPECT_EQ(options["preconditions"]["uid"], "u");
  EXPECT_EQ(options["gracePeriodSeconds"], 0);
}

TEST_F(RestClientTest, ListsPageByPageAndStartsOverOnceWhenAPageHasExpired) {
  const std::string first =
      R"({"metadata":{"resourceVersion":"5","continue":"t1"},"items":[{"metadata":{"name":"a"}}]})";
  const std::string second = R"({"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"b"},"kind":"Own"}]})";
  const ScriptedTransport::Reply gone{.status = 410, .body = R"({"kind":"Status","code":410,"reason":"Expired"})"};
  transport_.Add({.body = first});
  transport_.Add(gone);
  transport_.Add({.body = first});
  transport_.Add({.body = second});
  const auto list = client_->List(kPods, {.ns = "n", .label_selector = "a=b"}, Soon());
  ASSERT_TRUE(list.ok()) << list.status().ToString();
  ASSERT_EQ(list->items.size(), 2u);
  EXPECT_EQ(list->items[0]["kind"], "Pod");
  EXPECT_EQ(list->items[0]["apiVersion"], "v1");
  EXPECT_EQ(list->items[1]["kind"], "Own");
  EXPECT_EQ(list->resource_version, "5");
  EXPECT_EQ(transport_.AwaitRequests(4)[3], "GET /api/v1/namespaces/n/pods?limit=500&labelSelector=a%3Db&continue=t1");
  transport_.Add({.body = first});
  transport_.Add(gone);
  transport_.Add({.body = first});
  transport_.Add(gone);
  EXPECT_EQ(client_->List(kPods, {}, Soon()).status().code(), StatusCode::kAborted);
}

TEST_F(RestClientTest, LooksUpACreateWhoseAnswerWasLost) {
  const Json pod = {{"metadata", {{"name", "p"}, {"namespace", "a"}, {"labels", {{"x", "1"}}}}},
                    {"spec", {{"nodeName", "n"}}}};
  const ScriptedTransport::Reply lost{.end = UnavailableError("connection reset")};
  Json stored = pod;
  stored["metadata"]["uid"] = "u";
  stored["spec"]["dnsPolicy"] = "ClusterFirst";
  transport_.Add(lost);
  transport_.Add({.body = stored.dump()});
  const auto ours = client_->Create(kPods, pod, {}, Soon());
  ASSERT_TRUE(ours.ok()) << ours.status().ToString();
  EXPECT_EQ((*ours)["metadata"]["uid"], "u");

  stored["metadata"]["labels"]["x"] = "2";
  transport_.Add(lost);
  transport_.Add({.body = stored.dump()});
  EXPECT_EQ(client_->Create(kPods, pod, {}, Soon()).status().code(), StatusCode::kAlreadyExists);

  // Not there: made again, after a pause.
  transport_.Add(lost);
  transport_.Add({.status = 404, .body = R"({"kind":"Status","code":404,"reason":"NotFound"})"});
  transport_.Add({.status = 201, .body = "{}"});
  std::jthread mover([this] {
    clock_.AwaitTimers(1);
    clock_.Advance(1s);
  });
  EXPECT_TRUE(client_->Create(kPods, pod, {}, Soon()).ok());

  // Without a name nobody can tell.
  transport_.Add(lost);
  EXPECT_EQ(
      client_->Create(kPods, {{"metadata", {{"generateName", "p-"}, {"namespace", "a"}}}}, {}, Soon()).status().code(),
      StatusCode::kUnavailable);
}

TEST_F(RestClientTest, AskedForItsVersionTheServerAnswersOrNot) {
  transport_.Add({.body = R"({"gitVersion":"v1.34.4"})"});
  EXPECT_EQ(*ServerVersion(transport_, Soon()), "v1.34.4");
  transport_.Add({.status = 401, .body = R"({"kind":"Status","code":401,"message":"Unauthorized"})"});
  EXPECT_EQ(ServerVersion(transport_, Soon()).status().code(), StatusCode::kPermissionDenied);
  transport_.Add({.body = "[]"});
  EXPECT_EQ(ServerVersion(transport_, Soon()).status().code(), StatusCode::kDataLoss);
}

TEST(LimitedTransport, HoldsRequestsBackAndCountsThem) {
  fakes::SimulatedClock clock;
  auto scripted = std::make_unique<ScriptedTransport>(clock);
  for (int i = 0; i < 3; ++i) scripted->Add({.status = i == 2 ? 404 : 200, .body = "{}"});
  const auto metrics = MetricsRegistry::Create();
  const auto transport = NewLimitedTransport(std::move(scripted), {.qps = 10, .burst = 2}, "api:6443", *metrics, clock);
  const net::HttpRequest request;
  const auto send = [&](Duration limit) { return transport->Send(request, Deadline::After(clock, limit), {}); };
  EXPECT_TRUE(send(1s).ok());
  EXPECT_TRUE(send(1s).ok());
  EXPECT_EQ(send(1ms).status().code(), StatusCode::kDeadlineExceeded);
  std::jthread mover([&] {
    clock.AwaitTimers(1);
    clock.Advance(1s);
  });
  EXPECT_EQ(send(1s)->status, 404);
  const std::string page = metrics->Render();
  EXPECT_NE(page.find(R"(rest_client_requests_total{code="200",host="api:6443",method="GET"} 2)"), std::string::npos)
      << page;
  EXPECT_NE(page.find(R"(rest_client_requests_total{code="404",host="api:6443",method="GET"} 1)"), std::string::npos)
      << page;
}

}  // namespace
}  // namespace paceline::kube
