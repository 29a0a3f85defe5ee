// Reading and writing objects of the Kubernetes API, as JSON. Three small interfaces, so that a function asks only for
// what it needs and a test can see that a reader never writes. Watching and caching are in reflector.h and cache.h.
//
// Errors, mapped from the server's Status object in one place (errors.h):
//   kNotFound 404 · kAlreadyExists 409 AlreadyExists · kAborted 409 Conflict, 410 Gone: read again and decide again ·
//   kInvalidArgument 400, 413, 415, 422: never retry · kPermissionDenied 401, 403 · kUnavailable 429, 5xx, no
//   connection
// Messages carry the server's own text and the object. Calls block until their deadline; all are thread-safe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/kube/resource.h"

namespace paceline::kube {

using Json = nlohmann::json;

struct ListOptions {
  std::string ns;  // empty: all namespaces
  std::string label_selector;
  std::string field_selector;
  int page_size = 500;  // pages are followed until the end
};

struct ObjectList {
  std::vector<Json> items;  // each with apiVersion and kind filled in
  std::string resource_version;
};

enum class PatchType {
  kMerge,           // application/merge-patch+json; replaces arrays whole
  kJson,            // application/json-patch+json; `test` operations give compare-and-swap
  kStrategicMerge,  // built-in kinds only
  kApply,           // server-side apply; needs field_manager
};

struct WriteOptions {
  std::string subresource;    // "", "status", "eviction", ...
  std::string field_manager;  // one name per controller part
  bool force = false;         // apply only: take fields over from other managers
  bool dry_run = false;
};

struct DeleteOptions {
  std::string uid_precondition;    // non-empty: kAborted unless the object still has this uid
  std::string propagation_policy;  // "", "Foreground", "Background", "Orphan"
  std::optional<int> grace_period_seconds;
};

class Reader {
 public:
  virtual ~Reader() = default;
  virtual Result<Json> Get(const Resource& resource, const ObjectKey& key, Deadline deadline) = 0;
  // The whole list, paged, as one consistent snapshot; starts over once when a page token expires.
  virtual Result<ObjectList> List(const Resource& resource, const ListOptions& options, Deadline deadline) = 0;
};

class Writer {
 public:
  virtual ~Writer() = default;
  // `object` needs metadata.name (or generateName) and, for namespaced kinds, metadata.namespace. Returns what the
  // server stored. A create whose answer got lost is looked up by name before it is tried again.
  virtual Result<Json> Create(const Resource& resource, const Json& object, const WriteOptions& options,
                              Deadline deadline) = 0;
  // Replaces; with metadata.resourceVersion set, kAborted when the object changed since.
  virtual Result<Json> Update(const Resource& resource, const Json& object, const WriteOptions& options,
                              Deadline deadline) = 0;
  virtual Result<Json> Patch(const Resource& resource, const ObjectKey& key, PatchType type, const Json& patch,
                             const WriteOptions& options, Deadline deadline) = 0;
  // Deleting what is already gone is kNotFound.
  virtual Status Delete(const Resource& resource, const ObjectKey& key, const DeleteOptions& options,
                        Deadline deadline) = 0;
};

class Client : public Reader, public Writer {};

}  // namespace paceline::kube
