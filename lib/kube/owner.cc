#include "lib/kube/owner.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "lib/kube/json_fields.h"

namespace paceline::kube {
namespace {

WalkEnd EndFor(const Status& error) {
  switch (error.code()) {
    case StatusCode::kNotFound: return WalkEnd::kGone;
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnimplemented: return WalkEnd::kNoAccess;
    default: return WalkEnd::kUnknown;
  }
}

}  // namespace

std::string ControllerReference::ToString() const { return kind + (group.empty() ? "" : "." + group) + " " + name; }

std::optional<ControllerReference> ControllerOf(const Json& object) {
  const Json* metadata = ObjectField(object, "metadata");
  const Json* references = metadata == nullptr ? nullptr : ArrayField(*metadata, "ownerReferences");
  if (references == nullptr) return std::nullopt;
  for (const Json& entry : *references) {
    if (!BoolField(entry, "controller")) continue;
    ControllerReference reference;
    const std::string api_version = StringField(entry, "apiVersion");
    const size_t slash = api_version.find('/');
    if (slash == std::string::npos) {
      reference.version = api_version;
    } else {
      reference.group = api_version.substr(0, slash);
      reference.version = api_version.substr(slash + 1);
    }
    reference.kind = StringField(entry, "kind");
    reference.name = StringField(entry, "name");
    reference.uid = StringField(entry, "uid");
    if (reference.kind.empty() || reference.name.empty()) return std::nullopt;
    return reference;
  }
  return std::nullopt;
}

OwnerChain WalkOwners(const Json& object, const std::string& ns, const OwnerLookup& lookup, Deadline deadline,
                      int max_depth) {
  OwnerChain chain;
  const Json* current = &object;
  while (std::optional<ControllerReference> owner = ControllerOf(*current)) {
    if (chain.steps.size() >= static_cast<size_t>(max_depth)) {
      chain.end = WalkEnd::kTooDeep;
      return chain;
    }
    Result<std::shared_ptr<const Json>> found = lookup(*owner, ns, deadline);
    if (!found.ok()) {
      chain.end = EndFor(found.status());
      chain.error = found.status().Annotate(owner->ToString());
      chain.steps.push_back({*std::move(owner), nullptr});
      return chain;
    }
    chain.steps.push_back({*std::move(owner), *std::move(found)});
    current = chain.steps.back().object.get();
  }
  return chain;
}

OwnerLookup CacheThenServer(CacheLookup cache, Reader& server, ResourceOfKind resource_of_kind, Duration server_timeout,
                            const Clock& clock) {
  return [cache = std::move(cache), &server, resource_of_kind = std::move(resource_of_kind), server_timeout, &clock](
             const ControllerReference& owner, const std::string& ns,
             Deadline deadline) -> Result<std::shared_ptr<const Json>> {
    std::optional<Resource> resource = resource_of_kind(owner.group, owner.kind);
    if (!resource) return UnimplementedError("kind not known");
    const ObjectKey key{resource->is_namespaced ? ns : "", owner.name};
    // Without a uid (hand-made references) the name has to do.
    auto is_meant = [&owner](const Json& object) {
      return owner.uid.empty() || MetadataString(object, "uid") == owner.uid;
    };
    if (auto cached = cache ? cache(*resource, key) : nullptr; cached != nullptr && is_meant(*cached)) return cached;
    ASSIGN_OR_RETURN(Json live, server.Get(*resource, key, Deadline::After(clock, server_timeout).Min(deadline)));
    if (!is_meant(live)) return NotFoundError("replaced by another object of that name");
    return std::shared_ptr<const Json>(std::make_shared<Json>(std::move(live)));
  };
}

}  // namespace paceline::kube
