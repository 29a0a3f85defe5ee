#include "tests/fakes/api_server_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "lib/base/check.h"
#include "lib/kube/json_fields.h"

namespace paceline::fakes {
namespace {

using kube::ObjectKey;
using kube::Resource;

constexpr size_t kMaxNoteBytes = 1024;

std::string KindKey(const std::string& group, const std::string& plural) { return group + "/" + plural; }

std::string Quote(const Resource& resource, const std::string& name) {
  return fmt::format("{} \"{}\"", resource.Display(), name);
}

Reply Invalid(const Resource& resource, const std::string& name, const std::string& field, const std::string& detail) {
  const std::string kind = resource.kind + (resource.group.empty() ? "" : "." + resource.group);
  Reply reply = Failure(422, "Invalid", fmt::format("{} \"{}\" is invalid: {}: {}", kind, name, field, detail));
  reply.body["details"] = {{"name", name},
                           {"causes", {{{"reason", "FieldValueInvalid"}, {"message", detail}, {"field", field}}}}};
  return reply;
}

Reply Conflict(const Resource& resource, const std::string& name, const std::string& why) {
  return Failure(409, "Conflict", fmt::format("Operation cannot be fulfilled on {}: {}", Quote(resource, name), why));
}

Reply Modified(const Resource& resource, const std::string& name) {
  return Conflict(resource, name,
                  "the object has been modified; please apply your changes to the latest version and try again");
}

bool IsSubdomain(const std::string& name) {
  auto is_edge = [](char c) {
    return std::islower(static_cast<unsigned char>(c)) || std::isdigit(static_cast<unsigned char>(c));
  };
  if (name.empty() || name.size() > 253 || !is_edge(name.front()) || !is_edge(name.back())) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) { return is_edge(c) || c == '-' || c == '.'; });
}

bool HasFinalizers(const Json& object) {
  const Json* metadata = kube::ObjectField(object, "metadata");
  const Json* finalizers = metadata == nullptr ? nullptr : kube::ArrayField(*metadata, "finalizers");
  return finalizers != nullptr && !finalizers->empty();
}

bool IsBeingDeleted(const Json& object) { return !kube::MetadataString(object, "deletionTimestamp").empty(); }

bool HasNewFinalizer(const Json& before, const Json& after) {
  const Json none = Json::array();
  const Json old = before["metadata"].value("finalizers", none);
  for (const Json& finalizer : after["metadata"].value("finalizers", none)) {
    if (std::find(old.begin(), old.end(), finalizer) == old.end()) return true;
  }
  return false;
}

// All but metadata and status.
Json DesiredState(Json object) {
  object.erase("metadata");
  object.erase("status");
  return object;
}

// The checks of events.k8s.io/v1.
std::optional<std::string> BadEventField(const Json& event) {
  for (const char* field : {"reportingController", "reportingInstance", "action", "reason", "eventTime", "type"}) {
    if (kube::StringField(event, field).empty()) return field;
  }
  if (kube::StringField(event, "note").size() > kMaxNoteBytes) return "note";
  const Json* series = kube::ObjectField(event, "series");
  if (series != nullptr && kube::IntegerField(*series, "count") < 2) return "series.count";
  return std::nullopt;
}

}  // namespace

Reply Failure(int code, const std::string& reason, const std::string& message) {
  return {code,
          {{"kind", "Status"},
           {"apiVersion", "v1"},
           {"metadata", Json::object()},
           {"status", "Failure"},
           {"message", message},
           {"reason", reason},
           {"code", code}},
          {}};
}

void ObjectStore::AddResource(const Resource& resource, const ResourceTraits& traits) {
  Kind& kind = kinds_[KindKey(resource.group, resource.plural)];
  kind.resource = resource;
  kind.traits = traits;
}

const Resource* ObjectStore::FindResource(const std::string& group, const std::string& version,
                                          const std::string& plural) const {
  auto it = kinds_.find(KindKey(group, plural));
  return it == kinds_.end() || it->second.resource.version != version ? nullptr : &it->second.resource;
}

const ObjectStore::Kind& ObjectStore::KindOf(const Resource& resource) const {
  auto it = kinds_.find(KindKey(resource.group, resource.plural));
  CHECK(it != kinds_.end());  // the test forgot AddResource
  return it->second;
}

ObjectStore::Kind& ObjectStore::KindOf(const Resource& resource) {
  return const_cast<Kind&>(static_cast<const ObjectStore*>(this)->KindOf(resource));
}

Reply ObjectStore::Missing(const Resource& resource, const std::string& name) const {
  return Failure(404, "NotFound", Quote(resource, name) + " not found");
}

Reply ObjectStore::Get(const Resource& resource, const ObjectKey& key) const {
  const Kind& kind = KindOf(resource);
  auto it = kind.objects.find(key);
  if (it == kind.objects.end()) return Missing(resource, key.name);
  return {200, *it->second.object, {}};
}

std::vector<std::shared_ptr<const Json>> ObjectStore::All(const Resource& resource, const std::string& ns) const {
  std::vector<std::shared_ptr<const Json>> all;
  for (const auto& [key, stored] : KindOf(resource).objects) {
    if (ns.empty() || key.ns == ns) all.push_back(stored.object);
  }
  return all;
}

std::string ObjectStore::NewUid() {
  const uint64_t n = ++uids_;
  return fmt::format("{:08x}-{:04x}-4000-8000-{:012x}", (n * 2654435761u) & 0xffffffff, n & 0xffff, n);
}

void ObjectStore::Stamp(Json& object) { object["metadata"]["resourceVersion"] = std::to_string(++version_); }

std::optional<Reply> ObjectStore::CheckNew(const Kind& kind, const std::string& ns, Json& object) {
  const Resource& resource = kind.resource;
  if (!object.is_object() || kube::StringField(object, "kind") != resource.kind ||
      kube::StringField(object, "apiVersion") != resource.ApiVersion()) {
    return Failure(400, "BadRequest",
                   fmt::format("the object provided is unrecognized (must be of type {})", resource.kind));
  }
  Json& metadata = object["metadata"];
  if (!metadata.is_object()) metadata = Json::object();
  if (!kube::StringField(metadata, "resourceVersion").empty()) {
    return Failure(500, "InternalError", "resourceVersion should not be set on objects to be created");
  }
  std::string name = kube::StringField(metadata, "name");
  if (name.empty()) {
    const std::string prefix = kube::StringField(metadata, "generateName");
    if (prefix.empty())
      return Invalid(resource, "", "metadata.name", "Required value: name or generateName is required");
    name = prefix + fmt::format("{:05x}", (++uids_ * 40503u) & 0xfffff);
    metadata["name"] = name;
  }
  if (!IsSubdomain(name)) {
    return Invalid(resource, name, "metadata.name",
                   "Invalid value: a lowercase RFC 1123 subdomain must consist of ...");
  }
  if (!resource.is_namespaced) {
    metadata.erase("namespace");
    return std::nullopt;
  }
  const std::string own_ns = kube::StringField(metadata, "namespace");
  if (!own_ns.empty() && own_ns != ns) {
    return Failure(400, "BadRequest",
                   "the namespace of the provided object does not match the namespace sent on the request");
  }
  metadata["namespace"] = ns;
  const Kind& namespaces = KindOf(kube::kNamespaces);
  if (namespaces.objects.count({"", ns}) == 0) return Missing(kube::kNamespaces, ns);
  if (resource == kube::kEvents) {
    if (auto field = BadEventField(object)) return Invalid(resource, name, *field, "Invalid value");
  }
  return std::nullopt;
}

Reply ObjectStore::Create(const Resource& resource, const std::string& ns, Json object, const WriteContext& context) {
  Kind& kind = KindOf(resource);
  if (std::optional<Reply> bad = CheckNew(kind, ns, object)) return *bad;
  Json& metadata = object["metadata"];
  const ObjectKey key{resource.is_namespaced ? ns : "", metadata["name"]};
  if (kind.objects.count(key) > 0) return Failure(409, "AlreadyExists", Quote(resource, key.name) + " already exists");
  metadata["uid"] = NewUid();
  metadata["creationTimestamp"] = FormatRfc3339(clock_.WallNow());
  metadata.erase("deletionTimestamp");
  metadata.erase("managedFields");
  if (kind.traits.has_generation) metadata["generation"] = 1;
  if (kind.traits.has_status && kind.traits.is_custom) object.erase("status");
  if (context.is_dry_run) return {201, object, {}};
  Stamp(object);
  Stored stored;
  TakeChangedFields(Json::object(), object, context.manager, stored.owned);
  stored.object = std::make_shared<const Json>(std::move(object));
  history_.push_back({version_, resource, nullptr, stored.object});
  const Json body = *stored.object;
  kind.objects[key] = std::move(stored);
  return {201, body, {}};
}

std::optional<Reply> ObjectStore::CheckUpdate(const Kind& kind, const Json& before, const Json& after,
                                              bool is_patch) const {
  const Resource& resource = kind.resource;
  const std::string name = kube::MetadataString(before, "name");
  if (!after.is_object() || kube::MetadataString(after, "name") != name) {
    return Failure(400, "BadRequest", "the name of the object does not match the name on the URL");
  }
  if (kube::MetadataString(after, "namespace") != kube::MetadataString(before, "namespace")) {
    return Failure(400, "BadRequest", "the namespace of the object does not match the namespace on the request");
  }
  const std::string wanted = kube::MetadataString(after, "resourceVersion");
  if (wanted.empty() && !is_patch && (kind.traits.is_custom || kind.traits.needs_version)) {
    return Invalid(resource, name, "metadata.resourceVersion", "Invalid value: 0x0: must be specified for an update");
  }
  if (!wanted.empty() && wanted != kube::MetadataString(before, "resourceVersion")) return Modified(resource, name);
  const std::string uid = kube::MetadataString(after, "uid");
  if (!uid.empty() && uid != kube::MetadataString(before, "uid")) {
    return Conflict(resource, name,
                    "Precondition failed: UID in precondition: " + uid +
                        ", UID in object meta: " + kube::MetadataString(before, "uid"));
  }
  if (IsBeingDeleted(before) && HasNewFinalizer(before, after)) {
    return Invalid(resource, name, "metadata.finalizers",
                   "Forbidden: no new finalizers can be added if the object is being deleted");
  }
  return std::nullopt;
}

Json ObjectStore::Admit(const Kind& kind, const Json& before, Json after, const std::string& subresource) const {
  if (subresource == "status") {
    Json result = before;
    if (after.contains("status")) {
      result["status"] = after["status"];
    } else {
      result.erase("status");
    }
    return result;
  }
  if (kind.traits.has_status) {
    if (before.contains("status")) {
      after["status"] = before["status"];
    } else {
      after.erase("status");
    }
  }
  after["apiVersion"] = before["apiVersion"];
  after["kind"] = before["kind"];
  Json& metadata = after["metadata"];
  metadata.erase("managedFields");
  for (const char* field : {"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
                            "resourceVersion", "name", "namespace", "generateName"}) {
    if (before["metadata"].contains(field)) {
      metadata[field] = before["metadata"][field];
    } else {
      metadata.erase(field);
    }
  }
  return after;
}

Reply ObjectStore::Update(const Resource& resource, const ObjectKey& key, Json object, const WriteContext& context) {
  Kind& kind = KindOf(resource);
  auto it = kind.objects.find(key);
  if (it == kind.objects.end()) return Missing(resource, key.name);
  const Json before = *it->second.object;
  if (auto bad = CheckUpdate(kind, before, object, /*is_patch=*/false)) return *bad;
  return Write(kind, key, before, std::move(object), context, std::nullopt);
}

Reply ObjectStore::Write(Kind& kind, const ObjectKey& key, const Json& before, Json after, const WriteContext& context,
                         std::optional<Ownership> owned) {
  Json stored = Admit(kind, before, std::move(after), context.subresource);
  if (stored == before) {
    if (owned) kind.objects[key].owned = *std::move(owned);
    return {200, before, {}};  // nothing changed: no new version, no event
  }
  if (kind.traits.has_generation && DesiredState(stored) != DesiredState(before)) {
    stored["metadata"]["generation"] = kube::IntegerField(before["metadata"], "generation") + 1;
  }
  if (context.is_dry_run) return {200, stored, {}};
  if (!owned) {
    owned = kind.objects[key].owned;
    TakeChangedFields(before, stored, context.manager, *owned);
  }
  if (IsBeingDeleted(stored) && !HasFinalizers(stored) && !kind.traits.has_graceful_delete) {
    Remove(kind, key);
    return {200, stored, {}};
  }
  Stamp(stored);
  Stored& slot = kind.objects[key];
  auto object = std::make_shared<const Json>(stored);
  history_.push_back({version_, kind.resource, slot.object, object});
  slot.object = std::move(object);
  slot.owned = *std::move(owned);
  return {200, stored, {}};
}

Reply ObjectStore::Patch(const Resource& resource, const ObjectKey& key, const std::string& content_type,
                         const Json& patch, const WriteContext& context) {
  Kind& kind = KindOf(resource);
  if (content_type == "application/apply-patch+yaml") return Apply(kind, key, patch, context);
  auto it = kind.objects.find(key);
  if (it == kind.objects.end()) return Missing(resource, key.name);
  const Json before = *it->second.object;
  Json after = before;
  if (content_type == "application/merge-patch+json") {
    MergePatch(after, patch);
  } else if (content_type == "application/json-patch+json") {
    Result<Json> patched = JsonPatch(before, patch);
    if (!patched.ok()) {
      return Failure(422, "Invalid",
                     "the server rejected our request due to an error in our request: " + patched.status().message());
    }
    after = *std::move(patched);
  } else if (content_type == "application/strategic-merge-patch+json" && !kind.traits.is_custom) {
    StrategicMergePatch(after, patch);
  } else {
    return Failure(415, "UnsupportedMediaType", "the body of the request was in an unknown format: " + content_type);
  }
  if (auto bad = CheckUpdate(kind, before, after, /*is_patch=*/true)) return *bad;
  return Write(kind, key, before, std::move(after), context, std::nullopt);
}

Reply ObjectStore::Apply(Kind& kind, const ObjectKey& key, const Json& fields, const WriteContext& context) {
  if (context.manager.empty()) return Failure(400, "BadRequest", "fieldManager is required for apply patch");
  if (kube::MetadataString(fields, "name") != key.name) {
    return Failure(400, "BadRequest", "the name of the object does not match the name on the URL");
  }
  WriteContext apply = context;
  // Apply owns fields per subresource, as the real one does.
  if (!context.subresource.empty()) apply.manager += "/" + context.subresource;
  auto it = kind.objects.find(key);
  if (it == kind.objects.end()) {
    if (!context.subresource.empty()) return Missing(kind.resource, key.name);
    return Create(kind.resource, key.ns, fields, apply);
  }
  const Json before = *it->second.object;
  Ownership owned = it->second.owned;
  Json after = before;
  const std::vector<ApplyConflict> conflicts = ServerSideApply(after, fields, apply.manager, context.is_forced, owned);
  if (!conflicts.empty()) {
    Reply reply = Failure(409, "Conflict", fmt::format("Apply failed with {} conflict(s)", conflicts.size()));
    for (const ApplyConflict& conflict : conflicts) {
      reply.body["details"]["causes"].push_back({{"reason", "FieldManagerConflict"},
                                                 {"message", "conflict with \"" + conflict.manager + "\""},
                                                 {"field", conflict.field}});
    }
    return reply;
  }
  after["metadata"]["name"] = key.name;
  if (const std::string wanted = kube::MetadataString(fields, "resourceVersion"); !wanted.empty()) {
    after["metadata"]["resourceVersion"] = wanted;
  }
  if (auto bad = CheckUpdate(kind, before, after, /*is_patch=*/true)) return *bad;
  return Write(kind, key, before, std::move(after), apply, std::move(owned));
}

void ObjectStore::Remove(Kind& kind, const ObjectKey& key) {
  auto it = kind.objects.find(key);
  Json last = *it->second.object;
  Stamp(last);
  history_.push_back({version_, kind.resource, std::make_shared<const Json>(std::move(last)), nullptr});
  kind.objects.erase(it);
}

Reply ObjectStore::Delete(const Resource& resource, const ObjectKey& key, const Json& options, bool is_dry_run) {
  Kind& kind = KindOf(resource);
  auto it = kind.objects.find(key);
  if (it == kind.objects.end()) return Missing(resource, key.name);
  Json object = *it->second.object;
  const Json* preconditions = kube::ObjectField(options, "preconditions");
  const std::string uid = preconditions == nullptr ? "" : kube::StringField(*preconditions, "uid");
  const std::string own_uid = kube::MetadataString(object, "uid");
  if (!uid.empty() && uid != own_uid) {
    return Conflict(resource, key.name,
                    fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: {}", uid, own_uid));
  }
  if (is_dry_run) return {200, object, {}};
  const std::string policy = kube::StringField(options, "propagationPolicy");
  if (policy == "Foreground") object["metadata"]["finalizers"].push_back("foregroundDeletion");
  const bool is_on_node = kind.traits.has_graceful_delete && object.contains("spec") &&
                          !kube::StringField(object["spec"], "nodeName").empty();
  const bool is_graceful = is_on_node && options.value("gracePeriodSeconds", 30) > 0;
  if (!HasFinalizers(object) && !is_graceful) {
    Remove(kind, key);
    return {200, {{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Success"}}, {}};
  }
  if (IsBeingDeleted(object)) return {200, object, {}};
  object["metadata"]["deletionTimestamp"] = FormatRfc3339(clock_.WallNow());
  object["metadata"]["deletionGracePeriodSeconds"] = is_graceful ? options.value("gracePeriodSeconds", 30) : 0;
  if (kind.traits.has_generation) {
    object["metadata"]["generation"] = kube::IntegerField(object["metadata"], "generation") + 1;
  }
  Stamp(object);
  auto stored = std::make_shared<const Json>(object);
  history_.push_back({version_, resource, it->second.object, stored});
  it->second.object = std::move(stored);
  return {200, object, {}};
}

void ObjectStore::Compact() {
  history_.clear();
  // The version moves on, as it does on a real server between compactions, so that even the newest known one is too
  // old.
  compacted_ = ++version_;
}

}  // namespace paceline::fakes
