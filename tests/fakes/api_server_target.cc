#include "tests/fakes/api_server_target.h"

#include "lib/net/url.h"

namespace paceline::fakes {
namespace {

// The fields that events.k8s.io/v1 and core/v1 call differently.
constexpr std::pair<const char*, const char*> kEventFields[] = {
    {"regarding", "involvedObject"},
    {"note", "message"},
    {"reportingController", "reportingComponent"},
};

std::vector<std::string> SplitPath(std::string_view path) {
  std::vector<std::string> parts;
  size_t start = 1;
  for (size_t i = 1; i <= path.size(); ++i) {
    if (i < path.size() && path[i] != '/') continue;
    if (i > start) parts.push_back(net::UrlDecode(path.substr(start, i - start)).value_or(""));
    start = i + 1;
  }
  return parts;
}

std::map<std::string, std::string> ParseQuery(std::string_view text) {
  std::map<std::string, std::string> query;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != '&') continue;
    const std::string_view pair = text.substr(start, i - start);
    const size_t equals = pair.find('=');
    const std::string name = net::UrlDecode(pair.substr(0, equals)).value_or("");
    if (!name.empty()) {
      query[name] = equals == std::string_view::npos ? "" : net::UrlDecode(pair.substr(equals + 1)).value_or("");
    }
    start = i + 1;
  }
  return query;
}

}  // namespace

Json Present(bool as_core_event, const Json& stored) {
  if (!as_core_event) return stored;
  Json event = stored;
  event["apiVersion"] = "v1";
  for (const auto& [modern, core] : kEventFields) {
    if (!event.contains(modern)) continue;
    event[core] = event[modern];
    event.erase(modern);
  }
  return event;
}

Json Absorb(bool as_core_event, const Json& given) {
  if (!as_core_event) return given;
  Json event = given;
  event["apiVersion"] = kube::kEvents.ApiVersion();
  for (const auto& [modern, core] : kEventFields) {
    if (!event.contains(core)) continue;
    event[modern] = event[core];
    event.erase(core);
  }
  return event;
}

net::HttpResponse ToResponse(const Reply& reply) {
  net::HttpResponse response;
  response.status = reply.code;
  response.headers["Content-Type"] = reply.body.is_string() ? "text/plain" : "application/json";
  for (const auto& [name, value] : reply.headers) response.headers[name] = value;
  response.body = reply.body.is_string() ? reply.body.get<std::string>() : reply.body.dump();
  return response;
}

Result<ApiServer::Target> ApiServer::Parse(const net::HttpRequest& request) const {
  Target target;
  const size_t mark = request.target.find('?');
  target.path = request.target.substr(0, mark);
  if (mark != std::string::npos) target.query = ParseQuery(std::string_view(request.target).substr(mark + 1));
  std::vector<std::string> parts = SplitPath(target.path);
  const size_t head = !parts.empty() && parts[0] == "api" ? 2 : 3;
  if (parts.size() <= head || (parts[0] != "api" && parts[0] != "apis")) return target;
  const std::string group = head == 2 ? "" : parts[1];
  const std::string version = parts[head - 1];
  std::vector<std::string> rest(parts.begin() + static_cast<ptrdiff_t>(head), parts.end());
  // /namespaces/NAME and /namespaces/NAME/status are the namespace itself; anything longer or other is inside it.
  const bool is_namespaced = rest.size() >= 3 && rest[0] == "namespaces" &&
                             !(rest.size() == 3 && (rest[2] == "status" || rest[2] == "finalize"));
  if (is_namespaced) {
    target.key.ns = rest[1];
    rest.erase(rest.begin(), rest.begin() + 2);
  }
  target.resource = store_.FindResource(group, version, rest[0]);
  if (group.empty() && version == "v1" && rest[0] == "events") {
    target.resource = store_.FindResource(kube::kEvents.group, kube::kEvents.version, kube::kEvents.plural);
    target.is_core_event = true;
  }
  if (rest.size() > 1) target.key.name = rest[1];
  if (rest.size() > 2) target.subresource = rest[2];
  if (target.resource != nullptr && target.resource->is_namespaced != is_namespaced && !target.key.name.empty()) {
    target.resource = nullptr;
  }
  return target;
}

}  // namespace paceline::fakes
