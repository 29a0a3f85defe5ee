#include "tests/fakes/api_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/base/check.h"
#include "lib/kube/json_fields.h"
#include "tests/fakes/api_server_select.h"
#include "tests/fakes/api_server_target.h"

namespace paceline::fakes {
namespace {

using kube::ObjectKey;
using kube::Resource;

const char* ReasonFor(int status) {
  switch (status) {
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "NotFound";
    case 409: return "Conflict";
    case 410: return "Expired";
    case 422: return "Invalid";
    case 429: return "TooManyRequests";
    case 500: return "InternalError";
    case 503: return "ServiceUnavailable";
    case 504: return "Timeout";
    default: return "";
  }
}

Json NamespaceNamed(const std::string& name) {
  return {
      {"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name}}}, {"status", {{"phase", "Active"}}}};
}

Reply Expired() {
  return Failure(410, "Expired", "The provided continue parameter is too old to display a consistent list result.");
}

}  // namespace

class FakeTransport final : public net::HttpTransport {
 public:
  explicit FakeTransport(ApiServer& server) : server_(server) {}

  Result<net::HttpResponse> Send(const net::HttpRequest& request, Deadline deadline, std::stop_token stop) override {
    return server_.Send(request, deadline, stop);
  }

  Result<net::HttpResponse> Stream(const net::HttpRequest& request, const net::BodyConsumer& consumer,
                                   Duration idle_timeout, Deadline deadline, std::stop_token stop) override {
    return server_.Stream(request, consumer, idle_timeout, deadline, stop);
  }

 private:
  ApiServer& server_;
};

ApiServer::ApiServer(const Clock& clock) : clock_(clock), store_(clock) {
  MutexLock lock(mutex_);
  store_.AddResource(kube::kPods, {.has_status = true, .has_generation = true, .has_graceful_delete = true});
  store_.AddResource(kube::kNodes, {.has_status = true});
  store_.AddResource(kube::kServices, {.has_status = true});
  store_.AddResource(kube::kSecrets, {});
  store_.AddResource(kube::kConfigMaps, {});
  store_.AddResource(kube::kNamespaces, {.has_status = true});
  store_.AddResource(kube::kEvents, {});
  store_.AddResource(kube::kJobs, {.has_status = true, .has_generation = true});
  store_.AddResource(kube::kLeases, {.needs_version = true});
  store_.AddResource(kube::kMutatingWebhooks, {.has_generation = true, .needs_version = true});
  store_.AddResource(kube::kCustomResourceDefinitions,
                     {.has_status = true, .has_generation = true, .needs_version = true});
  for (const char* name : {"default", "kube-system"}) {
    CHECK(store_.Create(kube::kNamespaces, "", NamespaceNamed(name), {}).ok());
  }
}

ApiServer::~ApiServer() { CHECK(watches() == 0); }

std::unique_ptr<net::HttpTransport> ApiServer::Connect() { return std::make_unique<FakeTransport>(*this); }

void ApiServer::AddResource(const Resource& resource) {
  AddResource(resource, {.has_status = true, .has_generation = true, .is_custom = true});
}

void ApiServer::AddResource(const Resource& resource, const ResourceTraits& traits) {
  MutexLock lock(mutex_);
  store_.AddResource(resource, traits);
}

Json ApiServer::Put(const Resource& resource, Json object) {
  object["apiVersion"] = resource.ApiVersion();
  object["kind"] = resource.kind;
  MutexLock lock(mutex_);
  ObjectKey key{kube::MetadataString(object, "namespace"), kube::MetadataString(object, "name")};
  if (resource.is_namespaced && key.ns.empty()) key.ns = object["metadata"]["namespace"] = "default";
  if (resource.is_namespaced && !store_.Get(kube::kNamespaces, {"", key.ns}).ok()) {
    CHECK(store_.Create(kube::kNamespaces, "", NamespaceNamed(key.ns), {}).ok());
  }
  object["metadata"].erase("resourceVersion");
  const WriteContext context{.manager = "test"};
  const Reply current = store_.Get(resource, key);
  Reply reply = current.ok() ? Reply{} : store_.Create(resource, key.ns, object, context);
  CHECK(reply.ok());
  if (current.ok()) {
    object["metadata"]["resourceVersion"] = current.body["metadata"]["resourceVersion"];
    reply = store_.Update(resource, key, object, context);
    CHECK(reply.ok());
  }
  if (object.contains("status") && reply.body.value("status", Json()) != object["status"]) {
    Json with_status = reply.body;
    with_status["status"] = object["status"];
    reply = store_.Update(resource, key, with_status, {.manager = "test", .subresource = "status"});
    CHECK(reply.ok());
  }
  changed_.NotifyAll();
  return reply.body;
}

Result<Json> ApiServer::Find(const Resource& resource, const ObjectKey& key) const {
  const bool is_core_event = resource == kube::kCoreEvents;
  MutexLock lock(mutex_);
  Reply reply = store_.Get(is_core_event ? kube::kEvents : resource, key);
  if (!reply.ok()) return NotFoundError(reply.body["message"]);
  return Present(is_core_event, reply.body);
}

std::vector<Json> ApiServer::All(const Resource& resource) const {
  const bool is_core_event = resource == kube::kCoreEvents;
  MutexLock lock(mutex_);
  std::vector<Json> all;
  for (const auto& object : store_.All(is_core_event ? kube::kEvents : resource, "")) {
    all.push_back(Present(is_core_event, *object));
  }
  return all;
}

void ApiServer::Erase(const Resource& resource, const ObjectKey& key) {
  MutexLock lock(mutex_);
  Reply reply = store_.Get(resource, key);
  if (!reply.ok()) return;
  reply.body["metadata"].erase("finalizers");
  CHECK(store_.Update(resource, key, reply.body, {}).ok());
  if (store_.Get(resource, key).ok()) CHECK(store_.Delete(resource, key, {{"gracePeriodSeconds", 0}}, false).ok());
  changed_.NotifyAll();
}

void ApiServer::Inject(Fault fault) {
  MutexLock lock(mutex_);
  faults_.push_back(std::move(fault));
}

void ApiServer::ClearFaults() {
  MutexLock lock(mutex_);
  faults_.clear();
}

void ApiServer::SetRequestHook(std::function<void(const net::HttpRequest&)> hook) {
  MutexLock lock(mutex_);
  hook_ = hook ? std::make_shared<std::function<void(const net::HttpRequest&)>>(std::move(hook)) : nullptr;
}

void ApiServer::Compact() {
  MutexLock lock(mutex_);
  store_.Compact();
  pages_.clear();
}

void ApiServer::DropWatches(WatchEnd end) {
  MutexLock lock(mutex_);
  ++drops_;
  last_drop_ = end;
  changed_.NotifyAll();
}

void ApiServer::StallWatches(bool is_stalled) {
  MutexLock lock(mutex_);
  is_stalled_ = is_stalled;
  changed_.NotifyAll();
}

void ApiServer::SendBookmarks() {
  MutexLock lock(mutex_);
  ++bookmarks_;
  changed_.NotifyAll();
}

void ApiServer::SetStreamingLists(StreamingLists how) {
  MutexLock lock(mutex_);
  streaming_lists_ = how;
}

void ApiServer::BlockEvictions(bool is_blocked) {
  MutexLock lock(mutex_);
  is_eviction_blocked_ = is_blocked;
}

std::vector<std::string> ApiServer::Requests() const {
  MutexLock lock(mutex_);
  return requests_;
}

void ApiServer::ForgetRequests() {
  MutexLock lock(mutex_);
  requests_.clear();
}

size_t ApiServer::watches() const {
  MutexLock lock(mutex_);
  return watches_;
}

std::string ApiServer::resource_version() const {
  MutexLock lock(mutex_);
  return std::to_string(store_.version());
}

std::optional<Fault> ApiServer::Arrive(const net::HttpRequest& request) {
  std::shared_ptr<const std::function<void(const net::HttpRequest&)>> hook;
  {
    MutexLock lock(mutex_);
    requests_.push_back(request.method + " " + request.target);
    hook = hook_;
  }
  if (hook != nullptr) (*hook)(request);
  MutexLock lock(mutex_);
  for (auto it = faults_.begin(); it != faults_.end(); ++it) {
    if (!it->method.empty() && it->method != request.method) continue;
    if (request.target.find(it->target_part) == std::string::npos) continue;
    Fault fault = *it;
    if (it->times > 0 && --it->times == 0) faults_.erase(it);
    return fault;
  }
  return std::nullopt;
}

Result<net::HttpResponse> ApiServer::Send(const net::HttpRequest& request, Deadline deadline,
                                          const std::stop_token& stop) {
  const std::optional<Fault> fault = Arrive(request);
  if (stop.stop_requested()) return CancelledError("stopped");
  if (deadline.Expired(clock_)) return DeadlineExceededError("no time left to send");
  if (!fault) return ToResponse(Handle(request));
  if (fault->is_carried_out) Handle(request);
  if (fault->status == 0) return UnavailableError("connection reset by peer (injected)");
  Reply reply = Failure(fault->status, ReasonFor(fault->status), "injected");
  reply.headers = fault->headers;
  return ToResponse(reply);
}

Reply ApiServer::Handle(const net::HttpRequest& request) {
  MutexLock lock(mutex_);
  const Result<Target> target = Parse(request);
  if (!target.ok()) return Failure(400, "BadRequest", target.status().message());
  const uint64_t before = store_.version();
  Reply reply = HandleLocked(request, *target);
  if (store_.version() != before) changed_.NotifyAll();
  return reply;
}

Reply ApiServer::HandleLocked(const net::HttpRequest& request, const Target& target) {
  if (target.path == "/version") return {200, {{"major", "1"}, {"minor", "34"}, {"gitVersion", "v1.34.4"}}, {}};
  if (target.path == "/readyz" || target.path == "/livez") return {200, "ok", {}};
  if (target.resource == nullptr) return {404, "404 page not found\n", {}};
  if (request.method != "GET") return WriteLocked(request, target);
  if (target.key.name.empty()) return ListLocked(target);
  Reply reply = store_.Get(*target.resource, target.key);
  if (reply.ok()) reply.body = Present(target.is_core_event, reply.body);
  return reply;
}

Reply ApiServer::ListLocked(const Target& target) {
  const Resource& shown = target.is_core_event ? kube::kCoreEvents : *target.resource;
  Result<Selector> selector = Selector::Parse(shown, target.Query("labelSelector"), target.Query("fieldSelector"));
  if (!selector.ok()) return Failure(400, "BadRequest", selector.status().message());
  const std::string version = target.Query("resourceVersion");
  const uint64_t wanted = std::strtoull(version.c_str(), nullptr, 10);
  if (wanted > store_.version()) {
    Reply reply =
        Failure(504, "Timeout", fmt::format("Too large resource version: {}, current: {}", wanted, store_.version()));
    reply.body["details"]["causes"] = {
        {{"reason", "ResourceVersionTooLarge"}, {"message", "Too large resource version"}}};
    return reply;
  }
  if (target.Query("resourceVersionMatch") == "Exact" && wanted < store_.compacted()) return Expired();

  std::vector<std::shared_ptr<const Json>> left;
  std::string snapshot_version = std::to_string(store_.version());
  if (const std::string token = target.Query("continue"); !token.empty()) {
    auto page = pages_.find(token);
    if (page == pages_.end()) return Expired();
    left = page->second;
    snapshot_version = token.substr(0, token.find('-'));
  } else {
    for (const auto& object : store_.All(*target.resource, target.key.ns)) {
      if (selector->Matches(Present(target.is_core_event, *object))) left.push_back(object);
    }
  }
  const size_t limit = std::strtoull(target.Query("limit").c_str(), nullptr, 10);
  const size_t take = limit == 0 ? left.size() : std::min(limit, left.size());
  Json items = Json::array();
  for (size_t i = 0; i < take; ++i) {
    Json item = Present(target.is_core_event, *left[i]);
    item.erase("apiVersion");  // the real server leaves them out of the items of typed lists
    item.erase("kind");
    items.push_back(std::move(item));
  }
  Json metadata = {{"resourceVersion", snapshot_version}};
  if (take < left.size()) {
    const std::string token = fmt::format("{}-{}", snapshot_version, ++next_page_);
    pages_[token] = {left.begin() + static_cast<ptrdiff_t>(take), left.end()};
    metadata["continue"] = token;
    metadata["remainingItemCount"] = left.size() - take;
  }
  return {200,
          {{"apiVersion", shown.ApiVersion()}, {"kind", shown.kind + "List"}, {"metadata", metadata}, {"items", items}},
          {}};
}

Reply ApiServer::WriteLocked(const net::HttpRequest& request, const Target& target) {
  Json body = request.body.empty() ? Json::object() : Json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  if (body.is_discarded()) return Failure(400, "BadRequest", "the body of the request is not valid JSON");
  auto agent = request.headers.find("User-Agent");
  WriteContext context;
  context.manager = target.Query("fieldManager");
  auto type = request.headers.find("Content-Type");
  const std::string content_type = type == request.headers.end() ? "" : type->second;
  const bool is_apply = content_type == "application/apply-patch+yaml";
  if (context.manager.empty() && !is_apply)
    context.manager = agent == request.headers.end() ? "unknown" : agent->second;
  context.subresource = target.subresource;
  context.is_dry_run = target.Query("dryRun") == "All";
  context.is_forced = target.Flag("force");

  Reply reply;
  if (request.method == "POST") {
    reply = PostLocked(target, body, context);
  } else if (request.method == "PUT") {
    reply = store_.Update(*target.resource, target.key, Absorb(target.is_core_event, body), context);
  } else if (request.method == "PATCH") {
    reply = store_.Patch(*target.resource, target.key, content_type, Absorb(target.is_core_event, body), context);
  } else if (request.method == "DELETE" && !target.key.name.empty()) {
    return store_.Delete(*target.resource, target.key, body, context.is_dry_run);
  } else {
    return Failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
  }
  if (reply.ok()) reply.body = Present(target.is_core_event, reply.body);
  return reply;
}

Reply ApiServer::PostLocked(const Target& target, const Json& body, const WriteContext& context) {
  if (target.subresource == "eviction") return EvictLocked(target, body);
  if (!target.key.name.empty()) return Failure(405, "MethodNotAllowed", "POST to an object");
  Reply reply = store_.Create(*target.resource, target.key.ns, Absorb(target.is_core_event, body), context);
  if (reply.ok() && !context.is_dry_run && *target.resource == kube::kCustomResourceDefinitions) {
    DefineCustomResource(reply.body);
  }
  return reply;
}

Reply ApiServer::EvictLocked(const Target& target, const Json& body) {
  if (is_eviction_blocked_) {
    Reply reply = Failure(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.");
    reply.body["details"]["causes"] = {
        {{"reason", "DisruptionBudget"}, {"message", "The disruption budget needs more"}}};
    return reply;
  }
  Reply reply = store_.Delete(*target.resource, target.key, body.value("deleteOptions", Json::object()), false);
  if (reply.ok()) reply.code = 201;
  return reply;
}

void ApiServer::DefineCustomResource(const Json& definition) {
  const Json& spec = definition["spec"];
  for (const Json& version : spec["versions"]) {
    if (!kube::BoolField(version, "served")) continue;
    const Json* subresources = kube::ObjectField(version, "subresources");
    store_.AddResource(
        {spec["group"], version["name"], spec["names"]["plural"], spec["names"]["kind"], spec["scope"] == "Namespaced"},
        {.has_status = subresources != nullptr && subresources->contains("status"),
         .has_generation = true,
         .is_custom = true});
  }
  Json with_status = definition;
  with_status["status"] = {{"conditions", {{{"type", "Established"}, {"status", "True"}}}}};
  const ObjectKey key{"", kube::MetadataString(definition, "name")};
  CHECK(
      store_.Update(kube::kCustomResourceDefinitions, key, with_status, {.manager = "server", .subresource = "status"})
          .ok());
}

}  // namespace paceline::fakes
