// How a patch changes an object, for the fake API server: merge, JSON, strategic-merge and server-side apply. Pure
// functions over JSON. Lists that merge by key are known by field name, which is enough for the kinds that tests use;
// the contract suite holds this against the real server.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace paceline::fakes {

using Json = nlohmann::json;

// RFC 7386.
void MergePatch(Json& target, const Json& patch);
// kInvalidArgument when an operation does not work or a test fails.
Result<Json> JsonPatch(const Json& target, const Json& patch);
// Lists by their merge key, null deletes, {"$patch":"delete"} deletes an element.
void StrategicMergePatch(Json& target, const Json& patch);

// Which manager owns which leaf fields of one object: managedFields, simplified.
using FieldPath = std::vector<std::string>;
using Ownership = std::map<std::string, std::set<FieldPath>>;

struct ApplyConflict {
  std::string manager;
  std::string field;  // ".spec.replicas"
};

// Applies `fields` in the name of `manager`. With conflicts and no `force` nothing changes and they are returned.
std::vector<ApplyConflict> ServerSideApply(Json& live, const Json& fields, const std::string& manager, bool force,
                                           Ownership& owned);

// After any other write: what changed between the two belongs to `manager` now.
void TakeChangedFields(const Json& before, const Json& after, const std::string& manager, Ownership& owned);

}  // namespace paceline::fakes
