// The objects of the fake API server and the rules of the real one about writing them: resource versions, conflicts,
// uids, generations, finalizers, status subresources, field ownership, and the history that watches read. Not
// thread-safe: ApiServer holds the lock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/kube/client.h"
#include "tests/fakes/api_server_patch.h"

namespace paceline::fakes {

// What the server does differently from kind to kind.
struct ResourceTraits {
  bool has_status = false;           // a status subresource
  bool has_generation = false;       // metadata.generation counts spec changes
  bool is_custom = false;            // no strategic merge; updates need a resourceVersion
  bool needs_version = false;        // updates need a resourceVersion (also Leases)
  bool has_graceful_delete = false;  // pods on a node
};

// An HTTP answer: an object, or a metav1.Status.
struct Reply {
  int code = 200;
  Json body;
  std::map<std::string, std::string> headers;

  bool ok() const { return code < 300; }
};

Reply Failure(int code, const std::string& reason, const std::string& message);

// One change of one object, as watches see it.
struct Change {
  uint64_t version;
  kube::Resource resource;
  std::shared_ptr<const Json> before;  // null: added
  std::shared_ptr<const Json> after;   // null: deleted; `before` then carries the version of the deletion
};

struct WriteContext {
  std::string manager;  // fieldManager, or the user agent's name
  std::string subresource;
  bool is_dry_run = false;
  bool is_forced = false;
};

class ObjectStore {
 public:
  explicit ObjectStore(const Clock& clock) : clock_(clock) {}

  void AddResource(const kube::Resource& resource, const ResourceTraits& traits);
  // By group, version and plural; null when not served.
  const kube::Resource* FindResource(const std::string& group, const std::string& version,
                                     const std::string& plural) const;

  Reply Get(const kube::Resource& resource, const kube::ObjectKey& key) const;
  // All of the namespace ("": all), by key.
  std::vector<std::shared_ptr<const Json>> All(const kube::Resource& resource, const std::string& ns) const;

  Reply Create(const kube::Resource& resource, const std::string& ns, Json object, const WriteContext& context);
  Reply Update(const kube::Resource& resource, const kube::ObjectKey& key, Json object, const WriteContext& context);
  // `content_type` as in the request.
  Reply Patch(const kube::Resource& resource, const kube::ObjectKey& key, const std::string& content_type,
              const Json& patch, const WriteContext& context);
  Reply Delete(const kube::Resource& resource, const kube::ObjectKey& key, const Json& options, bool is_dry_run);

  uint64_t version() const { return version_; }
  uint64_t compacted() const { return compacted_; }
  const std::deque<Change>& history() const { return history_; }
  // Forgets the history: every older version is "too old" from now on.
  void Compact();

 private:
  struct Stored {
    std::shared_ptr<const Json> object;
    Ownership owned;
  };
  struct Kind {
    kube::Resource resource;
    ResourceTraits traits;
    std::map<kube::ObjectKey, Stored> objects;
  };

  const Kind& KindOf(const kube::Resource& resource) const;
  Kind& KindOf(const kube::Resource& resource);
  Reply Missing(const kube::Resource& resource, const std::string& name) const;
  std::optional<Reply> CheckNew(const Kind& kind, const std::string& ns, Json& object);
  std::optional<Reply> CheckUpdate(const Kind& kind, const Json& before, const Json& after, bool is_patch) const;
  // What the update may change, in the terms of the subresource; the rest is as before.
  Json Admit(const Kind& kind, const Json& before, Json after, const std::string& subresource) const;
  Reply Write(Kind& kind, const kube::ObjectKey& key, const Json& before, Json after, const WriteContext& context,
              std::optional<Ownership> owned);
  Reply Apply(Kind& kind, const kube::ObjectKey& key, const Json& fields, const WriteContext& context);
  void Remove(Kind& kind, const kube::ObjectKey& key);
  void Stamp(Json& object);
  std::string NewUid();

  const Clock& clock_;
  std::map<std::string, Kind> kinds_;  // by "group/plural"
  std::deque<Change> history_;
  uint64_t version_ = 1000;
  uint64_t compacted_ = 1000;  // older versions than this are gone
  uint64_t uids_ = 0;
};

}  // namespace paceline::fakes
