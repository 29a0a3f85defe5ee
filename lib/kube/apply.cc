#include "lib/kube/apply.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "lib/base/utf8.h"
#include "lib/kube/json_fields.h"

namespace paceline::kube {
namespace {

constexpr int kMaxTries = 8;
constexpr size_t kMaxMessageBytes = 32768;
constexpr size_t kMaxReasonBytes = 1024;

const Json* Finalizers(const Json& object) {
  const Json* metadata = ObjectField(object, "metadata");
  return metadata == nullptr ? nullptr : ArrayField(*metadata, "finalizers");
}

std::optional<size_t> FinalizerIndex(const Json& object, std::string_view finalizer) {
  const Json* finalizers = Finalizers(object);
  if (finalizers == nullptr) return std::nullopt;
  for (size_t i = 0; i < finalizers->size(); ++i) {
    if ((*finalizers)[i].is_string() && (*finalizers)[i].get_ref<const std::string&>() == finalizer) return i;
  }
  return std::nullopt;
}

// The server answers 422 to a failed `test`, and 409 when it lost a race inside: both mean read again.
bool IsLostRace(const Status& status) {
  return status.code() == StatusCode::kAborted || status.code() == StatusCode::kInvalidArgument;
}

}  // namespace

ObjectKey KeyOf(const Json& object) { return {MetadataString(object, "namespace"), MetadataString(object, "name")}; }

Result<Json> Apply(Writer& writer, const Resource& resource, const Json& object, const std::string& field_manager,
                   Deadline deadline, const std::string& subresource) {
  const ObjectKey key = KeyOf(object);
  if (key.name.empty()) return InvalidArgumentError("apply " + resource.Display() + ": object without a name");
  Json fields = object;
  fields["apiVersion"] = resource.ApiVersion();
  fields["kind"] = resource.kind;
  WriteOptions options;
  options.subresource = subresource;
  options.field_manager = field_manager;
  options.force = true;
  return writer.Patch(resource, key, PatchType::kApply, fields, options, deadline);
}

Result<Json> UpdateWithRetry(Client& client, const Resource& resource, const ObjectKey& key,
                             const std::string& subresource, const ObjectChange& change, Deadline deadline) {
  WriteOptions options;
  options.subresource = subresource;
  Status lost;
  for (int tries = 0; tries < kMaxTries; ++tries) {
    ASSIGN_OR_RETURN(Json object, client.Get(resource, key, deadline));
    const Json before = object;
    RETURN_IF_ERROR(change(object));
    if (object == before) return object;
    Result<Json> stored = client.Update(resource, object, options, deadline);
    if (stored.ok() || stored.status().code() != StatusCode::kAborted) return stored;
    lost = stored.status();
  }
  return lost.Annotate(fmt::format("gave up after {} conflicts", kMaxTries));
}

bool HasFinalizer(const Json& object, std::string_view finalizer) {
  return FinalizerIndex(object, finalizer).has_value();
}

bool IsBeingDeleted(const Json& object) { return !MetadataString(object, "deletionTimestamp").empty(); }

Result<Json> AddFinalizer(Client& client, const Resource& resource, const ObjectKey& key, std::string_view finalizer,
                          Deadline deadline) {
  Status lost;
  for (int tries = 0; tries < kMaxTries; ++tries) {
    ASSIGN_OR_RETURN(Json object, client.Get(resource, key, deadline));
    if (HasFinalizer(object, finalizer)) return object;
    if (IsBeingDeleted(object)) {
      return AbortedError(fmt::format("{} {} is being deleted", resource.Display(), key.ToString()));
    }
    Json patch = Json::array();
    // The uid keeps us off a successor of the same name; the version keeps two first finalizers from replacing each
    // other.
    patch.push_back({{"op", "test"}, {"path", "/metadata/uid"}, {"value", MetadataString(object, "uid")}});
    if (Finalizers(object) == nullptr) {
      patch.push_back({{"op", "test"},
                       {"path", "/metadata/resourceVersion"},
                       {"value", MetadataString(object, "resourceVersion")}});
      patch.push_back({{"op", "add"}, {"path", "/metadata/finalizers"}, {"value", Json::array({finalizer})}});
    } else {
      patch.push_back({{"op", "add"}, {"path", "/metadata/finalizers/-"}, {"value", finalizer}});
    }
    Result<Json> stored = client.Patch(resource, key, PatchType::kJson, patch, {}, deadline);
    if (stored.ok() || !IsLostRace(stored.status())) return stored;
    lost = stored.status();
  }
  return lost.Annotate("add finalizer " + std::string(finalizer));
}

Status RemoveFinalizer(Client& client, const Resource& resource, const ObjectKey& key, std::string_view finalizer,
                       Deadline deadline) {
  Status lost;
  for (int tries = 0; tries < kMaxTries; ++tries) {
    Result<Json> object = client.Get(resource, key, deadline);
    if (object.status().code() == StatusCode::kNotFound) return Status();
    if (!object.ok()) return object.status();
    const std::optional<size_t> index = FinalizerIndex(*object, finalizer);
    if (!index) return Status();
    const std::string path = fmt::format("/metadata/finalizers/{}", *index);
    const Json patch = {{{"op", "test"}, {"path", "/metadata/uid"}, {"value", MetadataString(*object, "uid")}},
                        {{"op", "test"}, {"path", path}, {"value", finalizer}},
                        {{"op", "remove"}, {"path", path}}};
    const Status sent = client.Patch(resource, key, PatchType::kJson, patch, {}, deadline).status();
    if (sent.ok() || sent.code() == StatusCode::kNotFound) return Status();
    if (!IsLostRace(sent)) return sent;
    lost = sent;
  }
  return lost.Annotate("remove finalizer " + std::string(finalizer));
}

Status SetControllerReference(const Json& owner, Json& object) {
  const ObjectKey owner_key = KeyOf(owner);
  const ObjectKey key = KeyOf(object);
  if (!owner_key.ns.empty() && owner_key.ns != key.ns) {
    return InvalidArgumentError(
        fmt::format("{} cannot be owned by {}, which is in another namespace", key.ToString(), owner_key.ToString()));
  }
  const std::string uid = MetadataString(owner, "uid");
  const Json reference = {{"apiVersion", StringField(owner, "apiVersion")},
                          {"kind", StringField(owner, "kind")},
                          {"name", owner_key.name},
                          {"uid", uid},
                          {"controller", true},
                          {"blockOwnerDeletion", true}};
  Json& references = object["metadata"]["ownerReferences"];
  if (!references.is_array()) references = Json::array();
  for (Json& entry : references) {
    if (StringField(entry, "uid") == uid) {
      entry = reference;
      return Status();
    }
    if (BoolField(entry, "controller")) {
      return AlreadyExistsError(fmt::format("{} is controlled by {} {} already", key.ToString(),
                                            StringField(entry, "kind"), StringField(entry, "name")));
    }
  }
  references.push_back(reference);
  return Status();
}

bool IsControlledBy(const Json& object, const Json& owner) {
  const std::string uid = MetadataString(owner, "uid");
  const Json* metadata = ObjectField(object, "metadata");
  const Json* references = metadata == nullptr ? nullptr : ArrayField(*metadata, "ownerReferences");
  if (uid.empty() || references == nullptr) return false;
  for (const Json& entry : *references) {
    if (BoolField(entry, "controller") && StringField(entry, "uid") == uid) return true;
  }
  return false;
}

std::string_view ConditionStatusName(ConditionStatus status) {
  switch (status) {
    case ConditionStatus::kTrue: return "True";
    case ConditionStatus::kFalse: return "False";
    case ConditionStatus::kUnknown: return "Unknown";
  }
  return "Unknown";
}

const Json* FindCondition(const Json& conditions, std::string_view type) {
  if (!conditions.is_array()) return nullptr;
  for (const Json& entry : conditions) {
    if (StringField(entry, "type") == type) return &entry;
  }
  return nullptr;
}

bool SetCondition(Json& conditions, const ConditionUpdate& condition, WallTime now) {
  if (!conditions.is_array()) conditions = Json::array();
  Json next = {{"type", condition.type},
               {"status", ConditionStatusName(condition.status)},
               {"reason", TruncateUtf8(condition.reason, kMaxReasonBytes)},
               {"message", TruncateUtf8(condition.message, kMaxMessageBytes)},
               {"lastTransitionTime", FormatRfc3339(now)}};
  if (condition.observed_generation > 0) next["observedGeneration"] = condition.observed_generation;
  for (Json& entry : conditions) {
    if (StringField(entry, "type") != condition.type) continue;
    const std::string since = StringField(entry, "lastTransitionTime");
    if (StringField(entry, "status") == ConditionStatusName(condition.status) && !since.empty()) {
      next["lastTransitionTime"] = since;
    }
    if (entry == next) return false;
    entry = std::move(next);
    return true;
  }
  conditions.push_back(std::move(next));
  return true;
}

}  // namespace paceline::kube
