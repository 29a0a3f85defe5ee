#include "lib/kube/rest_client.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "lib/kube/errors.h"

namespace paceline::kube {
namespace {

constexpr int kCreateAttempts = 4;
constexpr std::chrono::milliseconds kCreateBackoff{250};

std::string CollectionPath(const Resource& resource, const std::string& ns) {
  std::string path =
      resource.group.empty() ? "/api/" + resource.version : "/apis/" + resource.group + "/" + resource.version;
  if (!ns.empty()) path += "/namespaces/" + net::UrlEncode(ns);
  return path + "/" + resource.plural;
}

std::string ObjectPath(const Resource& resource, const ObjectKey& key) {
  return CollectionPath(resource, key.ns) + "/" + net::UrlEncode(key.name);
}

std::string What(const char* verb, const Resource& resource, const std::string& object) {
  return std::string(verb) + " " + resource.Display() + (object.empty() ? "" : " " + object);
}

void AddQuery(std::string* target, std::string_view name, const std::string& value) {
  if (value.empty()) return;
  *target += target->find('?') == std::string::npos ? '?' : '&';
  target->append(name).append("=").append(net::UrlEncode(value));
}

void AddWriteQuery(std::string* target, const WriteOptions& options) {
  AddQuery(target, "fieldManager", options.field_manager);
  if (options.dry_run) AddQuery(target, "dryRun", "All");
}

// Bytes that are not UTF-8 become U+FFFD: the server would refuse them, and it says better what is wrong with the rest.
std::string Dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

const char* ContentType(PatchType type) {
  switch (type) {
    case PatchType::kMerge: return "application/merge-patch+json";
    case PatchType::kJson: return "application/json-patch+json";
    case PatchType::kStrategicMerge: return "application/strategic-merge-patch+json";
    case PatchType::kApply: return "application/apply-patch+yaml";
  }
  return "";
}

std::string MetaText(const Json& object, const char* field) {
  const auto meta = object.find("metadata");
  if (meta == object.end() || !meta->is_object()) return "";
  const auto value = meta->find(field);
  return value != meta->end() && value->is_string() ? value->get<std::string>() : "";
}

// True when everything in `sent` is in `stored` with the same value; what the server added does not matter.
bool Contains(const Json& stored, const Json& sent) {
  if (sent.is_object()) {
    if (!stored.is_object()) return false;
    for (auto member = sent.begin(); member != sent.end(); ++member) {
      const auto found = stored.find(member.key());
      if (found == stored.end() ? !member->is_null() && !member->empty() : !Contains(*found, *member)) return false;
    }
    return true;
  }
  if (sent.is_array()) {
    if (!stored.is_array() || stored.size() < sent.size()) return false;
    for (size_t i = 0; i < sent.size(); ++i) {
      if (!Contains(stored[i], sent[i])) return false;
    }
    return true;
  }
  return stored == sent;
}

class RestClient final : public Client {
 public:
  RestClient(net::HttpTransport& transport, const Clock& clock) : transport_(transport), clock_(clock) {}

  Result<Json> Get(const Resource& resource, const ObjectKey& key, Deadline deadline) override {
    return Exchange("GET", ObjectPath(resource, key), nullptr, "", What("get", resource, key.ToString()), deadline);
  }

  Result<ObjectList> List(const Resource& resource, const ListOptions& options, Deadline deadline) override {
    bool is_expired = false;
    Result<ObjectList> list = ListOnce(resource, options, deadline, &is_expired);
    if (!list.ok() && is_expired) list = ListOnce(resource, options, deadline, &is_expired);
    return list;
  }

  Result<Json> Create(const Resource& resource, const Json& object, const WriteOptions& options,
                      Deadline deadline) override {
    const ObjectKey key{MetaText(object, "namespace"), MetaText(object, "name")};
    std::string target = CollectionPath(resource, key.ns);
    if (!options.subresource.empty()) target = ObjectPath(resource, key) + "/" + options.subresource;
    AddWriteQuery(&target, options);
    const std::string what =
        What("create", resource, key.name.empty() ? MetaText(object, "generateName") + "*" : key.ToString());
    for (int attempt = 1;; ++attempt) {
      bool was_answered = true;
      Result<Json> created = Exchange("POST", target, &object, "application/json", what, deadline, &was_answered);
      // An answer is final. Without one nobody knows whether the object was made; only a name can tell.
      if (created.ok() || was_answered || key.name.empty() || !options.subresource.empty() || options.dry_run ||
          attempt == kCreateAttempts || created.status().code() != StatusCode::kUnavailable) {
        return created;
      }
      Result<Json> stored = Get(resource, key, deadline);
      if (stored.ok() && Contains(*stored, object)) return stored;
      if (stored.ok()) return AlreadyExistsError(what + ": there is another object of that name");
      if (stored.status().code() != StatusCode::kNotFound && !IsRetryable(stored.status())) return stored.status();
      const TimePoint next = clock_.Now() + kCreateBackoff * attempt;
      if (next >= deadline.when()) return created;
      clock_.SleepUntil(next, {});
    }
  }

  Result<Json> Update(const Resource& resource, const Json& object, const WriteOptions& options,
                      Deadline deadline) override {
    const ObjectKey key{MetaText(object, "namespace"), MetaText(object, "name")};
    std::string target = ObjectPath(resource, key);
    if (!options.subresource.empty()) target += "/" + options.subresource;
    AddWriteQuery(&target, options);
    return Exchange("PUT", target, &object, "application/json", What("update", resource, key.ToString()), deadline);
  }

  Result<Json> Patch(const Resource& resource, const ObjectKey& key, PatchType type, const Json& patch,
                     const WriteOptions& options, Deadline deadline) override {
    std::string target = ObjectPath(resource, key);
    if (!options.subresource.empty()) target += "/" + options.subresource;
    AddWriteQuery(&target, options);
    if (type == PatchType::kApply && options.force) AddQuery(&target, "force", "true");
    return Exchange("PATCH", target, &patch, ContentType(type), What("patch", resource, key.ToString()), deadline);
  }

  Status Delete(const Resource& resource, const ObjectKey& key, const DeleteOptions& options,
                Deadline deadline) override {
    Json body = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
    if (!options.uid_precondition.empty()) body["preconditions"] = {{"uid", options.uid_precondition}};
    if (!options.propagation_policy.empty()) body["propagationPolicy"] = options.propagation_policy;
    if (options.grace_period_seconds.has_value()) body["gracePeriodSeconds"] = *options.grace_period_seconds;
    return Exchange("DELETE", ObjectPath(resource, key), &body, "application/json",
                    What("delete", resource, key.ToString()), deadline)
        .status();
  }

 private:
  // `was_answered`, when given, says whether a failure is the server's answer rather than the lack of one.
  Result<Json> Exchange(const char* method, std::string target, const Json* body, const char* content_type,
                        const std::string& what, Deadline deadline, bool* was_answered = nullptr) {
    net::HttpRequest request;
    request.method = method;
    request.target = std::move(target);
    request.headers["Accept"] = "application/json";
    if (body != nullptr) {
      request.headers["Content-Type"] = content_type;
      request.body = Dump(*body);
    }
    Result<net::HttpResponse> response = transport_.Send(request, deadline);
    if (was_answered != nullptr) *was_answered = response.ok();
    if (!response.ok()) return response.status().Annotate(what);
    RETURN_IF_ERROR(ToStatus(*response, what));
    Json parsed = Json::parse(response->body, nullptr, /*allow_exceptions=*/false);
    if (parsed.is_discarded()) return DataLossError(what + ": the answer is not JSON");
    return parsed;
  }

  Result<ObjectList> ListOnce(const Resource& resource, const ListOptions& options, Deadline deadline,
                              bool* is_expired) {
    ObjectList out;
    const std::string what = What("list", resource, options.ns);
    std::string base = CollectionPath(resource, options.ns);
    if (options.page_size > 0) AddQuery(&base, "limit", std::to_string(options.page_size));
    AddQuery(&base, "labelSelector", options.label_selector);
    AddQuery(&base, "fieldSelector", options.field_selector);
    for (std::string token;;) {
      std::string target = base;
      AddQuery(&target, "continue", token);
      Result<Json> page = Exchange("GET", std::move(target), nullptr, "", what, deadline);
      // Only a page token can expire here: the first page asks for the newest state.
      *is_expired = !page.ok() && page.status().code() == StatusCode::kAborted && !token.empty();
      if (!page.ok()) return page.status();
      if (!page->is_object()) return DataLossError(what + ": the answer is no list");
      out.resource_version = MetaText(*page, "resourceVersion");
      if (auto items = page->find("items"); items != page->end() && items->is_array()) {
        for (Json& item : *items) out.items.push_back(WithKind(std::move(item), resource));
      }
      token = MetaText(*page, "continue");
      if (token.empty()) return out;
    }
  }

  // Lists of built-in kinds leave these two out of their items.
  static Json WithKind(Json item, const Resource& resource) {
    if (item.is_object()) {
      item.emplace("apiVersion", resource.ApiVersion());
      item.emplace("kind", resource.kind);
    }
    return item;
  }

  net::HttpTransport& transport_;
  const Clock& clock_;
};

}  // namespace

std::unique_ptr<Client> NewRestClient(net::HttpTransport& transport, const Clock& clock) {
  return std::make_unique<RestClient>(transport, clock);
}

Result<std::string> ServerVersion(net::HttpTransport& transport, Deadline deadline) {
  net::HttpRequest request;
  request.target = "/version";
  request.headers["Accept"] = "application/json";
  Result<net::HttpResponse> response = transport.Send(request, deadline);
  if (!response.ok()) return response.status().Annotate("get /version");
  RETURN_IF_ERROR(ToStatus(*response, "get /version"));
  const Json parsed = Json::parse(response->body, nullptr, /*allow_exceptions=*/false);
  const auto version = parsed.find("gitVersion");
  if (!parsed.is_object() || version == parsed.end() || !version->is_string()) {
    return DataLossError("get /version: the answer names no version");
  }
  return version->get<std::string>();
}

}  // namespace paceline::kube
