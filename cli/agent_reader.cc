#include "cli/agent_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "lib/base/json.h"
#include "lib/net/http_client.h"

namespace paceline::cli {
namespace {

constexpr size_t kMaxThreads = 16;
constexpr size_t kMaxAnswerBytes = 64 << 20;

struct AgentPlace {
  std::string address;  // host:port, empty: not told
  std::string pod;      // "NAMESPACE/pods/http:NAME:PORT"; empty: none has the address
};

Result<std::map<std::string, AgentPlace>> PlacesOf(Session& session, AgentRoute route, Deadline deadline) {
  ASSIGN_OR_RETURN(const std::vector<api::NodePlan> plans, session.ListNodePlans());
  std::map<std::string, std::string> pods;  // by IP
  if (route == AgentRoute::kThroughApiServer) {
    const kube::Resource resource{"", "v1", "pods", "Pod", true};
    const std::string selector = "app.kubernetes.io/name=paceline,app.kubernetes.io/component=agent";
    Result<kube::ObjectList> list = session.client().List(resource, {.label_selector = selector}, deadline);
    if (!list.ok()) return list.status().Annotate("find the agents' pods (--direct dials their addresses instead)");
    for (const Json& pod : list->items) {
      const std::string ip = pod.value(Json::json_pointer("/status/podIP"), "");
      const Json& metadata = pod.at("metadata");
      if (!ip.empty()) pods[ip] = metadata.value("namespace", "") + "/pods/http:" + metadata.value("name", "");
    }
  }
  std::map<std::string, AgentPlace> places;
  for (const api::NodePlan& plan : plans) {
    AgentPlace& place = places[plan.metadata.name];
    place.address = plan.status.agent_address;
    const size_t colon = place.address.rfind(':');
    if (colon == std::string::npos) continue;
    const auto pod = pods.find(place.address.substr(0, colon));
    if (pod != pods.end()) place.pod = pod->second + place.address.substr(colon);
  }
  return places;
}

Result<std::string> BodyOf(const Result<net::HttpResponse>& response) {
  if (!response.ok()) return response.status();
  if (response->status == 200) return response->body;
  // The agent says why in one line; the API server in a Status object, of which the code is enough.
  const bool is_line = response->body.size() < 200 && response->body.find('{') == std::string::npos;
  const Status status = net::HttpStatusToStatus(response->status, "its agent");
  if (!is_line || response->body.empty()) return status;
  return Status(status.code(), response->body.substr(0, response->body.find('\n')));
}

}  // namespace

Result<std::vector<AgentAnswer>> AskAgents(Session& session, const std::vector<std::string>& nodes,
                                           const std::string& target, AgentRoute route, const Clock& clock,
                                           Deadline deadline) {
  ASSIGN_OR_RETURN(const auto places, PlacesOf(session, route, deadline));
  const auto ask = [&](const std::string& node) -> Result<std::string> {
    const auto found = places.find(node);
    if (found == places.end() || found->second.address.empty()) {
      return UnavailableError("its agent has told no address: does it run there? (pacectl doctor)");
    }
    const AgentPlace& place = found->second;
    if (route == AgentRoute::kThroughApiServer) {
      if (place.pod.empty()) return UnavailableError("no agent's pod has the address " + place.address);
      return BodyOf(session.Get("/api/v1/namespaces/" + place.pod + "/proxy" + target, deadline));
    }
    net::HttpClientOptions options{.base_url = "http://" + place.address, .user_agent = "pacectl"};
    options.retry.max_attempts = 2;
    options.connect_timeout = std::chrono::seconds(2);
    options.max_body_bytes = kMaxAnswerBytes;
    ASSIGN_OR_RETURN(const auto client, net::NewHttpClient(std::move(options), clock));
    return BodyOf(client->Send({.target = target}, deadline));
  };
  std::vector<AgentAnswer> answers;
  for (const std::string& node : nodes) answers.push_back({node, UnavailableError("not asked")});
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < answers.size(); i = next++) answers[i].body = ask(answers[i].node);
  };
  {
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < std::min(kMaxThreads, answers.size()); ++i) threads.emplace_back(work);
    work();
  }
  return answers;
}

}  // namespace paceline::cli
