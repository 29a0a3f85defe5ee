#include "operator/page/access.h"

#include <nlohmann/json.hpp>

#include "lib/base/json.h"

namespace paceline::operator_ {
namespace {

constexpr size_t kMaxKept = 1000;
constexpr size_t kMaxTokenBytes = 16 * 1024;
constexpr std::string_view kBearer = "Bearer ";

// What has run out goes; everything, when that makes no room for one more.
template <typename Map>
void MakeRoom(Map& map, TimePoint now) {
  for (auto it = map.begin(); it != map.end();) it = it->second.until <= now ? map.erase(it) : std::next(it);
  if (map.size() >= kMaxKept) map.clear();
}

std::string KeyOf(const PageUser& user, const PageRequest& request) {
  return DumpJson({user.name, user.groups, request.group, request.resource, request.verb, request.ns});
}

}  // namespace

Result<std::string> PageAccess::Ask(const char* path, std::string body, Deadline deadline) {
  net::HttpRequest request;
  request.method = "POST";
  request.target = path;
  request.headers["Content-Type"] = "application/json";
  request.headers["Accept"] = "application/json";
  request.body = std::move(body);
  ASSIGN_OR_RETURN(net::HttpResponse response, transport_.Send(request, deadline));
  if (response.status / 100 != 2) {
    const Status refused = net::HttpStatusToStatus(response.status, path);
    // Our own lack of rights is no verdict on the user.
    return refused.code() == StatusCode::kPermissionDenied
               ? UnavailableError("the operator may not ask the API server about users: " + refused.message())
               : refused;
  }
  return std::move(response.body);
}

Result<PageUser> PageAccess::UserOf(std::string_view authorization, Deadline deadline) {
  if (authorization.substr(0, kBearer.size()) != kBearer || authorization.size() == kBearer.size()) {
    return PermissionDeniedError("no bearer token");
  }
  const std::string token(authorization.substr(kBearer.size()));
  if (token.size() > kMaxTokenBytes) return PermissionDeniedError("the token is too long");
  {
    MutexLock lock(mutex_);
    const auto known = users_.find(token);
    if (known != users_.end() && clock_.Now() < known->second.until) return known->second.answer;
  }
  const Json review = {
      {"apiVersion", "authentication.k8s.io/v1"}, {"kind", "TokenReview"}, {"spec", {{"token", token}}}};
  ASSIGN_OR_RETURN(const std::string text,
                   Ask("/apis/authentication.k8s.io/v1/tokenreviews", DumpJson(review), deadline));
  ASSIGN_OR_RETURN(const Json answer, ParseJson(text));
  ASSIGN_OR_RETURN(const bool is_good, JsonBoolOr(answer, "status.authenticated", false));
  if (!is_good) return PermissionDeniedError("the token is not valid, or no longer");
  PageUser user;
  ASSIGN_OR_RETURN(user.name, JsonString(answer, "status.user.username"));
  ASSIGN_OR_RETURN(user.uid, JsonStringOr(answer, "status.user.uid", ""));
  if (FindJson(answer, "status.user.groups") != nullptr) {
    ASSIGN_OR_RETURN(user.groups, JsonStrings(answer, "status.user.groups"));
  }
  MutexLock lock(mutex_);
  MakeRoom(users_, clock_.Now());
  users_[token] = {user, clock_.Now() + keep_};
  return user;
}

Status PageAccess::Check(const PageUser& user, const PageRequest& request, Deadline deadline) {
  const std::string key = KeyOf(user, request);
  {
    MutexLock lock(mutex_);
    const auto known = checks_.find(key);
    if (known != checks_.end() && clock_.Now() < known->second.until) return known->second.answer;
  }
  Json attributes = {{"group", request.group}, {"resource", request.resource}, {"verb", request.verb}};
  if (!request.ns.empty()) attributes["namespace"] = request.ns;
  const Json review = {{"apiVersion", "authorization.k8s.io/v1"},
                       {"kind", "SubjectAccessReview"},
                       {"spec",
                        {{"user", user.name},
                         {"uid", user.uid},
                         {"groups", user.groups},
                         {"resourceAttributes", std::move(attributes)}}}};
  ASSIGN_OR_RETURN(const std::string text,
                   Ask("/apis/authorization.k8s.io/v1/subjectaccessreviews", DumpJson(review), deadline));
  ASSIGN_OR_RETURN(const Json answer, ParseJson(text));
  ASSIGN_OR_RETURN(const bool is_allowed, JsonBoolOr(answer, "status.allowed", false));
  Status status;
  if (!is_allowed) {
    ASSIGN_OR_RETURN(const std::string reason, JsonStringOr(answer, "status.reason", ""));
    status = PermissionDeniedError(user.name + " may not " + request.verb + " " + request.resource +
                                   (request.ns.empty() ? " in all namespaces" : " in namespace " + request.ns) +
                                   (reason.empty() ? "" : ": " + reason));
  }
  MutexLock lock(mutex_);
  MakeRoom(checks_, clock_.Now());
  checks_[key] = {status, clock_.Now() + keep_};
  return status;
}

}  // namespace paceline::operator_
