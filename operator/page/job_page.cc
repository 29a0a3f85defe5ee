#include "operator/page/job_page.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "lib/api/incident_advice.h"
#include "lib/api/names.h"
#include "lib/api/stage_advice.h"
#include "lib/base/json.h"
#include "lib/net/url.h"

namespace paceline::operator_ {
namespace {

constexpr size_t kMaxListedRuns = 500;  // the newest
constexpr size_t kMaxIncidents = 100;   // of one run, or in a list

net::ServerResponse Answer(int status, std::string_view type, std::string body) {
  net::ServerResponse response;
  response.status = status;
  response.content_type = type;
  response.body = std::move(body);
  // Nothing from elsewhere is loaded or run, and no other site may show this one in a frame.
  response.headers["Content-Security-Policy"] =
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri "
      "'none'; "
      "form-action 'none'; frame-ancestors 'none'";
  response.headers["X-Content-Type-Options"] = "nosniff";
  response.headers["Referrer-Policy"] = "no-referrer";
  response.headers["Cache-Control"] = "no-store";
  return response;
}

net::ServerResponse ErrorAnswer(const Status& why) {
  int status = 503;
  if (why.code() == StatusCode::kPermissionDenied) status = 403;
  if (why.code() == StatusCode::kNotFound) status = 404;
  if (why.code() == StatusCode::kInvalidArgument) status = 400;
  return Answer(status, "application/json", DumpJson({{"error", why.message()}}));
}

// "a=b&c=d", decoded.
Result<std::map<std::string, std::string>> ParseQuery(std::string_view query) {
  std::map<std::string, std::string> values;
  while (!query.empty()) {
    const size_t end = query.find('&');
    const std::string_view pair = query.substr(0, end);
    query = end == std::string_view::npos ? std::string_view() : query.substr(end + 1);
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    ASSIGN_OR_RETURN(values[std::string(pair.substr(0, equals))], net::UrlDecode(pair.substr(equals + 1)));
  }
  return values;
}

std::string Text(const Json& body, std::string_view path) { return JsonStringOr(body, path, "").value_or(""); }

// One line of the list.
Json Summary(const kube::ObjectView& view, const Json& body) {
  Json line = {{"namespace", view.meta.ns.view()},    {"name", view.meta.name.view()},
               {"job", Text(body, "spec.job.name")},  {"kind", Text(body, "spec.job.kind")},
               {"phase", Text(body, "status.phase")}, {"created", FormatRfc3339(view.meta.creation_time)}};
  for (const auto& [key, path] :
       std::initializer_list<std::pair<const char*, const char*>>{{"generation", "spec.generation"},
                                                                  {"workers", "spec.workers"},
                                                                  {"startup", "status.startup"},
                                                                  {"wallSeconds", "status.wallSeconds"},
                                                                  {"firstStepAt", "status.firstStepAt"},
                                                                  {"slowdown", "status.slowdown"},
                                                                  {"incidents", "status.incidents"}}) {
    if (const Json* value = FindJson(body, path)) line[key] = *value;
  }
  return line;
}

class JobPage {
 public:
  explicit JobPage(const JobPageEnvironment& environment) : env_(environment) {}

  net::ServerResponse Runs(const net::ServerRequest& request, Deadline deadline) const {
    const auto query = ParseQuery(request.query);
    if (!query.ok()) return ErrorAnswer(query.status());
    const std::string ns = ValueOf(*query, "namespace");
    const Status may = MayRead(request, {std::string(api::kGroup), "trainingruns", "list", ns}, deadline);
    if (!may.ok()) return Refused(may);
    std::vector<std::shared_ptr<const kube::ObjectView>> views;
    for (auto& view : env_.runs.List()) {
      if (ns.empty() || view->meta.ns == ns) views.push_back(std::move(view));
    }
    std::sort(views.begin(), views.end(), [](const auto& a, const auto& b) {
      return std::tuple(b->meta.creation_time, a->meta.name.view()) <
             std::tuple(a->meta.creation_time, b->meta.name.view());
    });
    const size_t total = views.size();
    if (views.size() > kMaxListedRuns) views.resize(kMaxListedRuns);
    Json list = Json::array();
    for (const auto& view : views) {
      const auto body = view->Body();
      if (body.ok()) list.push_back(Summary(*view, *body));
    }
    return Answer(200, "application/json", DumpJson({{"runs", std::move(list)}, {"total", total}}));
  }

  // The run as it is stored: a large one is not taken apart and put together again.
  net::ServerResponse Run(const net::ServerRequest& request, Deadline deadline) const {
    return OfRun(request, deadline, [&](const kube::ObjectView& view) {
      const kube::ObjectKey key{view.meta.ns.str(), view.meta.name.str()};
      std::string body = "{\"run\":";
      body += view.json.view();
      const Status sees_incidents = MayRead(request, {std::string(api::kGroup), "incidents", "list", key.ns}, deadline);
      body += ",\"incidents\":[";
      if (sees_incidents.ok()) body += IncidentsOf(key.ns, key.name);
      return body + "],\"advice\":" + DumpJson(StageAdviceByName()) + ",\"verdicts\":" + DumpJson(VerdictActions()) +
             "}";
    });
  }

  net::ServerResponse Ranks(const net::ServerRequest& request, Deadline deadline) const {
    return OfRun(request, deadline, [&](const kube::ObjectView& view) {
      return env_.rank_heat({view.meta.ns.str(), view.meta.name.str()}, deadline);
    });
  }

  net::ServerResponse Nodes(const net::ServerRequest& request, Deadline deadline) const {
    const Status may = MayRead(request, {"", "nodes", "list", ""}, deadline);
    if (!may.ok()) return Refused(may);
    Json list = Json::array();
    for (const auto& node : env_.nodes.List()) {
      Json taints = Json::array();
      for (const kube::Taint& taint : node->spec.taints) {
        if (taint.key.view().rfind("paceline.dev/", 0) != 0) continue;
        taints.push_back({{"key", taint.key.view()}, {"value", taint.value.view()}, {"effect", taint.effect.view()}});
      }
      if (!node->spec.is_unschedulable && taints.empty()) continue;
      Json reasons = Json::object();
      for (const auto& [key, value] : node->meta.annotations) {
        if (key.view().rfind("paceline.dev/", 0) == 0) reasons[key.str()] = value.view();
      }
      list.push_back({{"name", node->meta.name.view()},
                      {"cordoned", node->spec.is_unschedulable},
                      {"taints", std::move(taints)},
                      {"reasons", std::move(reasons)}});
    }
    return Answer(200, "application/json", DumpJson({{"nodes", std::move(list)}}));
  }

 private:
  // What `make` makes of the run that the request names, when the user may see it.
  template <typename Make>
  net::ServerResponse OfRun(const net::ServerRequest& request, Deadline deadline, const Make& make) const {
    const auto query = ParseQuery(request.query);
    if (!query.ok()) return ErrorAnswer(query.status());
    const std::string ns = ValueOf(*query, "namespace"), name = ValueOf(*query, "name");
    if (ns.empty() || name.empty()) return ErrorAnswer(InvalidArgumentError("namespace and name are needed"));
    const Status may = MayRead(request, {std::string(api::kGroup), "trainingruns", "list", ns}, deadline);
    if (!may.ok()) return Refused(may);
    const auto view = env_.runs.Get({ns, name});
    if (view == nullptr) return ErrorAnswer(NotFoundError("there is no run " + ns + "/" + name + " (any more)"));
    return Answer(200, "application/json", make(*view));
  }

  static std::string ValueOf(const std::map<std::string, std::string>& query, const char* key) {
    const auto found = query.find(key);
    return found == query.end() ? std::string() : found->second;
  }

  // 401 for a token that is not good, as Check's kPermissionDenied is 403: the page then asks for another token.
  Status MayRead(const net::ServerRequest& request, const PageRequest& what, Deadline deadline) const {
    const auto header = request.headers.find("Authorization");
    const std::string authorization = header == request.headers.end() ? std::string() : header->second;
    const Result<PageUser> user = env_.access.UserOf(authorization, deadline);
    if (user.status().code() == StatusCode::kPermissionDenied) return AbortedError(user.status().message());
    if (!user.ok()) return user.status();
    return env_.access.Check(*user, what, deadline);
  }

  static net::ServerResponse Refused(const Status& why) {
    if (why.code() != StatusCode::kAborted) return ErrorAnswer(why);
    net::ServerResponse response = Answer(401, "application/json", DumpJson({{"error", why.message()}}));
    response.headers["WWW-Authenticate"] = "Bearer";
    return response;
  }

  std::string IncidentsOf(const std::string& ns, const std::string& run) const {
    std::string text;
    size_t count = 0;
    for (const auto& incident : env_.incidents.ListBy(std::string(api::kRunLabel), run)) {
      if (incident->meta.ns != ns || ++count > kMaxIncidents) continue;
      text += (text.empty() ? "" : ",") + incident->json.str();
    }
    return text;
  }

  static Json StageAdviceByName() {
    Json advice = Json::object();
    for (int i = 0; i <= static_cast<int>(api::StageName::kFirstStep); ++i) {
      const api::Advice& row = api::StageAdvice(static_cast<api::StageName>(i));
      advice[std::string(row.reason)] = {{"happened", row.happened}, {"action", row.action}};
    }
    return advice;
  }

  static Json VerdictActions() {
    Json actions = Json::object();
    for (const api::Advice& row : api::VerdictMessages()) actions[std::string(row.reason)] = row.action;
    return actions;
  }

  const JobPageEnvironment env_;
};

}  // namespace

std::map<std::string, net::Handler> JobPageRoutes(const JobPageEnvironment& environment) {
  const auto page = std::make_shared<const JobPage>(environment);
  const auto asset = [](std::string_view type, std::string_view body) {
    return [type, body](const net::ServerRequest&, Deadline) { return Answer(200, type, std::string(body)); };
  };
  std::map<std::string, net::Handler> routes;
  routes["GET /"] = [](const net::ServerRequest& request, Deadline) {
    if (request.path != "/") return Answer(404, "text/plain; charset=utf-8", "there is nothing here\n");
    return Answer(200, "text/html; charset=utf-8", std::string(PageHtml()));
  };
  routes["GET /page.js"] = asset("text/javascript; charset=utf-8", PageScript());
  routes["GET /page.css"] = asset("text/css; charset=utf-8", PageStyle());
  routes["GET /api/runs"] = [page](const auto& request, Deadline deadline) { return page->Runs(request, deadline); };
  routes["GET /api/run"] = [page](const auto& request, Deadline deadline) { return page->Run(request, deadline); };
  routes["GET /api/ranks"] = [page](const auto& request, Deadline deadline) { return page->Ranks(request, deadline); };
  routes["GET /api/nodes"] = [page](const auto& request, Deadline deadline) { return page->Nodes(request, deadline); };
  return routes;
}

}  // namespace paceline::operator_
