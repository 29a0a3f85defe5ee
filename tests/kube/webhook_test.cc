#include "lib/kube/webhook.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/base64.h"
#include "lib/base/utf8.h"
#include "lib/kube/json_fields.h"
#include "tests/fakes/capture_log.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::kube {
namespace {

using namespace std::chrono_literals;

// As an API server of 1.34 sends it for a pod of a Job.
Json Review() {
  return Json::parse(R"({
    "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
    "request": {
      "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
      "kind": {"group": "", "version": "v1", "kind": "Pod"},
      "resource": {"group": "", "version": "v1", "resource": "pods"},
      "namespace": "team", "operation": "CREATE", "dryRun": false,
      "userInfo": {"username": "system:serviceaccount:kube-system:job-controller"},
      "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {"generateName": "llama-0-"},
                 "spec": {"containers": [{"name": "main", "image": "train"}]}},
      "oldObject": null, "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
    }})");
}

class WebhookTest : public ::testing::Test {
 protected:
  net::ServerResponse Post(const std::string& body) {
    net::ServerRequest request;
    request.method = "POST";
    request.path = "/mutate-pods";
    request.body = body;
    return Serve(request);
  }
  net::ServerResponse Serve(const net::ServerRequest& request) {
    auto handler = NewAdmissionHandler(
        "/mutate-pods",
        [this](const AdmissionRequest& seen, Deadline) {
          last_ = seen;
          return decide_(seen);
        },
        clock_, log_.logger(), *metrics_);
    return handler(request, Deadline::After(clock_, 5s));
  }
  double Requests(const std::string& code) {
    return metrics_->CounterFamily({"controller_runtime_webhook_requests_total", "", {"webhook", "code"}})
        .With({"/mutate-pods", code})
        .Value();
  }

  fakes::SimulatedClock clock_;
  fakes::CaptureLog log_;
  std::unique_ptr<MetricsRegistry> metrics_ = MetricsRegistry::Create();
  AdmissionRequest last_;
  std::function<Result<AdmissionResponse>(const AdmissionRequest&)> decide_ = [](const AdmissionRequest&) {
    return AdmissionResponse{};
  };
};

TEST_F(WebhookTest, PassesTheRequestOnAndAnswersWithAPatch) {
  decide_ = [](const AdmissionRequest& request) {
    AdmissionResponse response;
    response.patch = std::make_shared<Json>(
        Json::array({{{"op", "add"}, {"path", "/metadata/annotations"}, {"value", {{"seen", request.ns}}}}}));
    response.warnings = {"something odd"};
    return response;
  };
  const net::ServerResponse response = Post(Review().dump());
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_EQ(last_.ns, "team");
  EXPECT_EQ(last_.kind, "Pod");
  EXPECT_EQ(last_.version, "v1");
  EXPECT_EQ(last_.operation, "CREATE");
  EXPECT_EQ(last_.name, "");
  EXPECT_EQ(last_.username, "system:serviceaccount:kube-system:job-controller");
  EXPECT_FALSE(last_.is_dry_run);
  EXPECT_EQ((*last_.object)["metadata"]["generateName"], "llama-0-");

  const Json answer = Json::parse(response.body);
  EXPECT_EQ(answer["kind"], "AdmissionReview");
  EXPECT_EQ(answer["apiVersion"], "admission.k8s.io/v1");
  EXPECT_EQ(answer["response"]["uid"], "705ab4f5-6393-11e8-b7cc-42010a800002");
  EXPECT_EQ(answer["response"]["allowed"], true);
  EXPECT_EQ(answer["response"]["patchType"], "JSONPatch");
  EXPECT_EQ(answer["response"]["warnings"], Json({"something odd"}));
  const Json patch = Json::parse(*DecodeBase64(answer["response"]["patch"].get<std::string>()));
  EXPECT_EQ(patch[0]["value"]["seen"], "team");
  EXPECT_EQ(Requests("200"), 1);
}

TEST_F(WebhookTest, UnchangedPodGetsNoPatch) {
  for (const auto& patch :
       {std::shared_ptr<const Json>(), std::shared_ptr<const Json>(std::make_shared<Json>(Json::array()))}) {
    decide_ = [patch](const AdmissionRequest&) {
      AdmissionResponse response;
      response.patch = patch;
      return response;
    };
    const Json answer = Json::parse(Post(Review().dump()).body);
    EXPECT_FALSE(answer["response"].contains("patch"));
    EXPECT_FALSE(answer["response"].contains("patchType"));
  }
}

TEST_F(WebhookTest, RefusalIsAnAnswerNotAnError) {
  decide_ = [](const AdmissionRequest&) {
    AdmissionResponse response;
    response.is_allowed = false;
    response.message = "not here";
    return response;
  };
  const net::ServerResponse response = Post(Review().dump());
  EXPECT_EQ(response.status, 200);
  const Json answer = Json::parse(response.body);
  EXPECT_EQ(answer["response"]["allowed"], false);
  EXPECT_EQ(answer["response"]["status"]["message"], "not here");
}

TEST_F(WebhookTest, WarningsAreCutTo120Characters) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "\xc3\xa9";
  AdmissionResponse response;
  response.warnings = {text, "short", std::string("bad \xff")};
  const Json warnings = Json::parse(EncodeAdmissionReview("u", response))["response"]["warnings"];
  EXPECT_EQ(warnings[0].get<std::string>().size(), 240u);
  EXPECT_TRUE(IsValidUtf8(warnings[0].get<std::string>()));
  EXPECT_EQ(warnings[1], "short");
  EXPECT_TRUE(IsValidUtf8(warnings[2].get<std::string>()));
}

TEST_F(WebhookTest, DryRunReachesTheHandler) {
  Json review = Review();
  review["request"]["dryRun"] = true;
  Post(review.dump());
  EXPECT_TRUE(last_.is_dry_run);
}

TEST_F(WebhookTest, FailingHandlerIsA500AndIsLogged) {
  decide_ = [](const AdmissionRequest&) -> Result<AdmissionResponse> { return UnavailableError("no cache yet"); };
  EXPECT_EQ(Post(Review().dump()).status, 500);
  decide_ = [](const AdmissionRequest& request) -> Result<AdmissionResponse> {
    return InvalidArgumentError(request.object->at("missing").get<std::string>());  // nlohmann throws
  };
  EXPECT_EQ(Post(Review().dump()).status, 500);
  EXPECT_EQ(Requests("500"), 2);
  EXPECT_EQ(log_.lines().size(), 2u) << log_.Text();
}

TEST_F(WebhookTest, OtherMethodsAreRefused) {
  net::ServerRequest request;
  request.method = "GET";
  EXPECT_EQ(Serve(request).status, 405);
}

TEST_F(WebhookTest, MalformedReviewsAre400) {
  auto without = [](const char* field) {
    Json review = Review();
    review["request"].erase(field);
    return review.dump();
  };
  Json wrong_version = Review();
  wrong_version["apiVersion"] = "admission.k8s.io/v1beta1";
  const std::string cases[] = {
      "",
      "null",
      "[]",
      "\"text\"",
      "{",
      R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"})",
      R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":[]})",
      R"({"kind":"Pod","apiVersion":"v1","request":{"uid":"u"}})",
      wrong_version.dump(),
      without("uid"),
      without("object"),
      std::string(1000000, '['),
      Review().dump() + "trailing",
      "{\"kind\":\"\xff\"}",
  };
  for (const std::string& body : cases) EXPECT_EQ(Post(body).status, 400) << body.substr(0, 80);
  EXPECT_EQ(Requests("400"), std::size(cases));
  EXPECT_EQ(Requests("200"), 0);
}

TEST_F(WebhookTest, DeepButQuotedBracketsAreNoNesting) {
  Json review = Review();
  review["request"]["object"]["metadata"]["annotations"]["x"] = std::string(1000, '[') + "\\\"{";
  EXPECT_EQ(Post(review.dump()).status, 200);
}

// Every cut and many one-byte damages of a review: an answer, never a crash.
TEST_F(WebhookTest, SurvivesCutAndDamagedBodies) {
  const std::string whole = Review().dump();
  for (size_t length = 0; length < whole.size(); ++length) EXPECT_EQ(Post(whole.substr(0, length)).status, 400);
  unsigned random = 12345;
  for (int i = 0; i < 3000; ++i) {
    std::string body = whole;
    for (int flips = 1 + i % 3; flips > 0; --flips) {
      random = random * 1103515245 + 12345;
      body[(random >> 8) % body.size()] ^= static_cast<char>(1u << (random >> 28 & 7));
    }
    const int status = Post(body).status;
    EXPECT_TRUE(status == 200 || status == 400) << status << " " << body;
  }
}

TEST(Base64, RoundTripsAndRefusesWhatIsNone) {
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
      {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {std::string("\0\xff\x10", 3), "AP8Q"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(EncodeBase64(bytes), text);
    EXPECT_EQ(DecodeBase64(text).value(), bytes);
  }
  EXPECT_EQ(DecodeBase64("Zm 9v\nYg==\r\n").value(), "foob");
  for (const char* bad : {"Z", "Zg", "Zg=", "Zg=a", "Zg==Zg==", "Z===", "====", "Zm9*", "Zm9v="}) {
    EXPECT_EQ(DecodeBase64(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST(JsonFields, ReadOtherTypesAsAbsent) {
  const Json object = {{"text", "x"},
                       {"number", 7},
                       {"flag", true},
                       {"object", {{"a", 1}}},
                       {"list", {1}},
                       {"null", nullptr},
                       {"metadata", {{"name", "n"}, {"uid", 5}}}};
  EXPECT_EQ(StringField(object, "text"), "x");
  EXPECT_EQ(StringField(object, "number"), "");
  EXPECT_EQ(IntegerField(object, "number"), 7);
  EXPECT_EQ(IntegerField(object, "text"), 0);
  EXPECT_TRUE(BoolField(object, "flag"));
  EXPECT_FALSE(BoolField(object, "number"));
  EXPECT_NE(ObjectField(object, "object"), nullptr);
  EXPECT_EQ(ObjectField(object, "list"), nullptr);
  EXPECT_NE(ArrayField(object, "list"), nullptr);
  EXPECT_EQ(ArrayField(object, "null"), nullptr);
  EXPECT_EQ(Field(Json(5), "x"), nullptr);
  EXPECT_EQ(MetadataString(object, "name"), "n");
  EXPECT_EQ(MetadataString(object, "uid"), "");
  EXPECT_EQ(MetadataString(Json::array(), "name"), "");
}

}  // namespace
}  // namespace paceline::kube
