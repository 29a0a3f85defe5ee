// Finds the job behind a pod: follows controller ownerReferences to the top (pod -> Job -> JobSet -> TrainJob).
//
// Pure but for the lookup that the caller injects. Callers: the pod webhook, the run controller. Owners may be of kinds
// that we may not read or that are not installed: the walk then ends with the reference alone and says why.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/kube/client.h"

namespace paceline::kube {

// A controller ownerReference. Kinds are compared by group and kind: Volcano's Job is not batch's, and a served version
// may change under a running job.
struct ControllerReference {
  std::string group;
  std::string version;
  std::string kind;
  std::string name;
  std::string uid;

  bool IsKind(std::string_view other_group, std::string_view other_kind) const {
    return group == other_group && kind == other_kind;
  }
  // "Job.batch train", for messages.
  std::string ToString() const;
  auto operator<=>(const ControllerReference&) const = default;
};

// The reference with controller=true. Empty when there is none, or when it is malformed (then the object counts as
// without owner: never a failure of the pod).
std::optional<ControllerReference> ControllerOf(const Json& object);

// Returns the owner object. kNotFound: gone, or another object by now (other uid). kPermissionDenied, kUnimplemented: a
// kind that we may not or cannot read. kUnavailable, kDeadlineExceeded: could not look.
using OwnerLookup = std::function<Result<std::shared_ptr<const Json>>(const ControllerReference& owner,
                                                                      const std::string& ns, Deadline)>;

struct OwnerStep {
  ControllerReference reference;
  std::shared_ptr<const Json> object;  // null only for the last step of a walk that could not go on
};

enum class WalkEnd {
  kTop,       // the last step has no controller
  kNoAccess,  // the last step's kind cannot be read
  kGone,      // the last step's object does not exist (any more)
  kUnknown,   // the lookup failed: may work later
  kTooDeep,   // more than max_depth steps, or a loop
};

struct OwnerChain {
  std::vector<OwnerStep> steps;  // nearest owner first; empty for an object without controller
  WalkEnd end = WalkEnd::kTop;
  Status error;  // of the lookup, for kNoAccess, kGone and kUnknown
};

// Walks up from `object` (its namespace given, as admission has it beside the object). Blocks as `lookup` does, within
// `deadline` in all.
OwnerChain WalkOwners(const Json& object, const std::string& ns, const OwnerLookup& lookup, Deadline deadline,
                      int max_depth = 6);

// What CacheThenServer needs to know: the resource of a kind that we may read, or nothing.
using ResourceOfKind = std::function<std::optional<Resource>(std::string_view group, std::string_view kind)>;
// A look into the caches; null when the object is not there.
using CacheLookup = std::function<std::shared_ptr<const Json>(const Resource& resource, const ObjectKey& key)>;

// A lookup that asks `cache` first and the server second, for at most `server_timeout` each time: at admission the
// owner may be milliseconds old and not yet in any cache. Checks the uid; a cached object of another uid is asked for
// again. All parameters must outlive the result.
OwnerLookup CacheThenServer(CacheLookup cache, Reader& server, ResourceOfKind resource_of_kind, Duration server_timeout,
                            const Clock& clock);

}  // namespace paceline::kube
