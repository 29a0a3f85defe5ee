// A mirror of one resource type in memory, kept up to date by a watch: what controllers read instead of asking the
// server. Store<T> is the thread-safe container, Cache<T> feeds one from the API server on a thread of its own.
//
// T is a view (views.h). Objects are shared and never change; readers may keep them. A cache is behind the server by
// the time of flight of an event: decide from it, and let resourceVersion conflicts settle races.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/kube/reflector.h"
#include "lib/kube/views.h"

namespace paceline::kube {

// A named way to look objects up: `keys` appends the values under which `object` is found (none is fine).
template <typename T>
struct CacheIndex {
  std::string name;
  std::function<void(const T& object, std::vector<SharedString>* keys)> keys;
};

// The index most controllers want: by the uid of the controlling owner, under the name "owner".
template <typename T>
CacheIndex<T> OwnerIndex();
// By a label's value, under the label's name.
template <typename T>
CacheIndex<T> LabelIndex(std::string label);
// Pods by the node they are bound to, under the name "node".
CacheIndex<PodView> NodeNameIndex();

// One change of a store. Exactly one of the two is null for an addition (before) or a deletion (after).
template <typename T>
struct CacheChange {
  std::shared_ptr<const T> before;
  std::shared_ptr<const T> after;
  const ObjectMeta& meta() const { return after != nullptr ? after->meta : before->meta; }
};

template <typename T>
class Store {
 public:
  using Pointer = std::shared_ptr<const T>;

  explicit Store(std::vector<CacheIndex<T>> indexes = {});

  // Null when absent. `ns` is empty for cluster-scoped objects.
  Pointer Get(std::string_view ns, std::string_view name) const EXCLUDES(mutex_);
  Pointer Get(const ObjectKey& key) const EXCLUDES(mutex_) { return Get(key.ns, key.name); }
  // All objects, or all under `value` of index `name` (an unknown index is a bug and ends the process). No order.
  std::vector<Pointer> List() const EXCLUDES(mutex_);
  std::vector<Pointer> ListBy(std::string_view index, std::string_view value) const EXCLUDES(mutex_);
  size_t size() const EXCLUDES(mutex_);

  // Writers: the cache, and tests. Each returns what changed.
  CacheChange<T> Set(Pointer object) EXCLUDES(mutex_);
  CacheChange<T> Remove(std::string_view ns, std::string_view name) EXCLUDES(mutex_);
  // Makes the store hold exactly `objects`. An object with an unchanged uid and resourceVersion keeps its old pointer
  // and is no change.
  std::vector<CacheChange<T>> Replace(std::vector<Pointer> objects) EXCLUDES(mutex_);

 private:
  struct Key {
    std::string_view ns, name;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(const Key& key) const {
      return std::hash<std::string_view>()(key.name) * 31 + std::hash<std::string_view>()(key.ns);
    }
    size_t operator()(const Pointer& object) const { return (*this)(Key{object->meta.ns, object->meta.name}); }
  };
  struct Equal {
    using is_transparent = void;
    static Key Of(const Key& key) { return key; }
    static Key Of(const Pointer& object) { return {object->meta.ns, object->meta.name}; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return Of(a).name == Of(b).name && Of(a).ns == Of(b).ns;
    }
  };
  using Buckets = std::unordered_map<SharedString, std::vector<Pointer>, TextHash, TextEqual>;

  void AddToIndexes(const Pointer& object) REQUIRES(mutex_);
  void RemoveFromIndexes(const Pointer& object) REQUIRES(mutex_);
  CacheChange<T> SetLocked(Pointer object) REQUIRES(mutex_);

  const std::vector<CacheIndex<T>> indexes_;
  mutable Mutex mutex_;
  std::unordered_set<Pointer, Hash, Equal> objects_ GUARDED_BY(mutex_);
  std::vector<Buckets> buckets_ GUARDED_BY(mutex_);  // one per index
};

// What a cache needs from outside; all must outlive it.
struct CacheEnvironment {
  net::HttpTransport& transport;
  const Clock& clock;
  Logger& log;
  MetricsRegistry& metrics;
};

template <typename T>
class Cache final : private WatchSink {
 public:
  // Called on the cache's thread, in order, after the store has changed. Must be quick: put a key in a queue.
  using Handler = std::function<void(const CacheChange<T>& change)>;

  Cache(ReflectorOptions options, CacheEnvironment environment, std::vector<CacheIndex<T>> indexes = {});
  // Stops as Stop does.
  ~Cache() override;

  // Before Start only.
  void AddHandler(Handler handler);
  void Start();
  // Ends the watch and joins the thread; the store keeps its last state. Safe to call twice.
  void Stop();

  const Store<T>& store() const { return store_; }
  // True once the first list is in the store and its handlers have run.
  bool HasSynced() const EXCLUDES(mutex_);
  // Blocks until HasSynced. kDeadlineExceeded names the resource and says why the list does not come; kCancelled.
  Status WaitForSync(Deadline deadline, std::stop_token stop = {}) const EXCLUDES(mutex_);
  ReflectorState State() const { return reflector_.State(); }

 private:
  void BeginList() override;
  Status AddListItem(std::string_view object, Encoding encoding) override;
  void EndList() override;
  Status ApplyEvent(WatchEventType type, std::string_view object, Encoding encoding,
                    std::string* resource_version) override;
  Result<std::shared_ptr<const T>> Decode(std::string_view object, Encoding encoding);
  void Notify(const CacheChange<T>& change);

  const std::string display_name_;
  const Clock& clock_;
  Gauge& objects_gauge_;
  Store<T> store_;
  Reflector reflector_;
  std::vector<Handler> handlers_;  // fixed once started

  // Used by the reflector's thread alone.
  StringPool pool_;
  std::vector<std::shared_ptr<const T>> listed_;

  mutable Mutex mutex_;
  mutable CondVar synced_changed_;
  bool has_synced_ GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

using PodCache = Cache<PodView>;
using NodeCache = Cache<NodeView>;
using EventCache = Cache<EventView>;
using JobCache = Cache<JobView>;
using ObjectCache = Cache<ObjectView>;

}  // namespace paceline::kube

#include "lib/kube/cache_inl.h"
