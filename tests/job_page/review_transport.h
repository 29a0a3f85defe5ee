// Answers TokenReviews and SubjectAccessReviews as an API server would for a few people. Thread-safe.
#pragma once

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/base/json.h"
#include "lib/net/http.h"

namespace paceline::operator_ {

// "admin-token" is of somebody who may read everything, "team-token" of somebody who may read runs and incidents of the
// namespace team, "runs-token" of somebody who may read no more than its runs. Other tokens are not valid.
class ReviewTransport final : public net::HttpTransport {
 public:
  Result<net::HttpResponse> Send(const net::HttpRequest& request, Deadline, std::stop_token) override {
    ++requests;
    net::HttpResponse response;
    response.status = status.load();
    if (response.status != 201) return response;
    const Result<Json> review = ParseJson(request.body);
    if (!review.ok()) return review.status();
    const bool is_token = request.target.find("tokenreviews") != std::string::npos;
    response.body = DumpJson({{"status", is_token ? TokenStatus(*review) : AccessStatus(*review)}});
    return response;
  }
  Result<net::HttpResponse> Stream(const net::HttpRequest&, const net::BodyConsumer&, Duration, Deadline,
                                   std::stop_token) override {
    return UnavailableError("nothing is watched here");
  }

  std::atomic<int> requests{0};
  std::atomic<int> status{201};  // of every answer; others come without a body

 private:
  static std::string Text(const Json& json, std::string_view path) { return JsonStringOr(json, path, "").value_or(""); }

  static Json TokenStatus(const Json& review) {
    const std::string token = Text(review, "spec.token");
    for (const char* name : {"admin", "team", "runs"}) {
      if (token != std::string(name) + "-token") continue;
      return {{"authenticated", true}, {"user", {{"username", name}, {"uid", "u"}, {"groups", {"people"}}}}};
    }
    return {{"authenticated", false}, {"error", "invalid bearer token"}};
  }

  static Json AccessStatus(const Json& review) {
    const std::string user = Text(review, "spec.user"), resource = Text(review, "spec.resourceAttributes.resource");
    const bool is_team = Text(review, "spec.resourceAttributes.namespace") == "team";
    const bool is_allowed = user == "admin" || (is_team && resource == "trainingruns") ||
                            (user == "team" && is_team && resource == "incidents");
    return {{"allowed", is_allowed}, {"reason", is_allowed ? "" : "no RBAC policy matched"}};
  }
};

}  // namespace paceline::operator_
