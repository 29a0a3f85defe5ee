// Ways to write that are safe beside other writers: server-side apply, read-modify-write with conflict retry,
// finalizers by JSON patch with a test, owner references, conditions. Free functions over Client; they block until
// `deadline`.
//
// Callers: controllers. Error codes are those of client.h.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/kube/client.h"

namespace paceline::kube {

// Namespace and name of an object; both empty when it has none.
ObjectKey KeyOf(const Json& object);

// Server-side apply of the fields in `object` (apiVersion, kind and metadata.name are filled in or required), taking
// fields over from other managers: a controller owns what it applies. Fields that this manager applied before and that
// are missing now are removed. Use one manager name for each part that applies.
Result<Json> Apply(Writer& writer, const Resource& resource, const Json& object, const std::string& field_manager,
                   Deadline deadline, const std::string& subresource = "");

// Changes an object that others change too. `change` edits the object that it is given and returns ok, or an error that
// ends the update and is returned. It is called again on a fresh copy after each conflict, so it must depend on its
// argument alone. An object left as it was is not written. `subresource` "" or "status".
// Returns the stored object; kAborted after eight lost races.
using ObjectChange = std::function<Status(Json& object)>;
Result<Json> UpdateWithRetry(Client& client, const Resource& resource, const ObjectKey& key,
                             const std::string& subresource, const ObjectChange& change, Deadline deadline);

// Adds `finalizer`, before the first side effect that needs a clean-up. Ok when it is there already; kAborted when the
// object is being deleted (too late). Returns the stored object.
Result<Json> AddFinalizer(Client& client, const Resource& resource, const ObjectKey& key, std::string_view finalizer,
                          Deadline deadline);
// Removes it; ok when the finalizer or the object is gone already. Other finalizers are untouched whatever else
// happens.
Status RemoveFinalizer(Client& client, const Resource& resource, const ObjectKey& key, std::string_view finalizer,
                       Deadline deadline);
bool HasFinalizer(const Json& object, std::string_view finalizer);
bool IsBeingDeleted(const Json& object);

// Makes `owner` the controller of `object` (blockOwnerDeletion set). kInvalidArgument when the owner is namespaced and
// in another namespace: the garbage collector would delete `object`; kAlreadyExists when another controller owns it.
Status SetControllerReference(const Json& owner, Json& object);
// True when `object`'s controller is `owner`, by uid.
bool IsControlledBy(const Json& object, const Json& owner);

enum class ConditionStatus { kTrue, kFalse, kUnknown };
std::string_view ConditionStatusName(ConditionStatus status);

// metav1.Condition as a controller sets it; views.h has the one that is read.
struct ConditionUpdate {
  std::string type;
  ConditionStatus status = ConditionStatus::kUnknown;
  std::string reason;   // CamelCase, not empty
  std::string message;  // cut to 32768 bytes
  int64_t observed_generation = 0;
};

// Puts `condition` in the array `conditions` (made when null). lastTransitionTime moves only when the status changes.
// Returns true when anything changed.
bool SetCondition(Json& conditions, const ConditionUpdate& condition, WallTime now);
// The condition of that type in the array, or null.
const Json* FindCondition(const Json& conditions, std::string_view type);

}  // namespace paceline::kube
