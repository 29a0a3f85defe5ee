// The bodies of cache.h's templates. Included by it and by nobody else.
#pragma once

#include <algorithm>
#include <utility>

#include "lib/base/check.h"

namespace paceline::kube {

template <typename T>
CacheIndex<T> OwnerIndex() {
  return {"owner", [](const T& object, std::vector<SharedString>* keys) {
            if (const OwnerReference* owner = object.meta.Controller()) keys->push_back(owner->uid);
          }};
}

template <typename T>
CacheIndex<T> LabelIndex(std::string label) {
  return {label, [label](const T& object, std::vector<SharedString>* keys) {
            if (const SharedString* value = object.meta.labels.Find(label)) keys->push_back(*value);
          }};
}

inline CacheIndex<PodView> NodeNameIndex() {
  return {"node", [](const PodView& pod, std::vector<SharedString>* keys) {
            if (!pod.spec.node_name.empty()) keys->push_back(pod.spec.node_name);
          }};
}

template <typename T>
Store<T>::Store(std::vector<CacheIndex<T>> indexes) : indexes_(std::move(indexes)), buckets_(indexes_.size()) {}

template <typename T>
auto Store<T>::Get(std::string_view ns, std::string_view name) const -> Pointer {
  MutexLock lock(mutex_);
  auto found = objects_.find(Key{ns, name});
  return found == objects_.end() ? nullptr : *found;
}

template <typename T>
auto Store<T>::List() const -> std::vector<Pointer> {
  MutexLock lock(mutex_);
  return {objects_.begin(), objects_.end()};
}

template <typename T>
auto Store<T>::ListBy(std::string_view index, std::string_view value) const -> std::vector<Pointer> {
  auto found = std::find_if(indexes_.begin(), indexes_.end(), [&](const auto& i) { return i.name == index; });
  CHECK(found != indexes_.end());
  MutexLock lock(mutex_);
  const Buckets& buckets = buckets_[found - indexes_.begin()];
  auto bucket = buckets.find(value);
  return bucket == buckets.end() ? std::vector<Pointer>() : bucket->second;
}

template <typename T>
size_t Store<T>::size() const {
  MutexLock lock(mutex_);
  return objects_.size();
}

template <typename T>
void Store<T>::AddToIndexes(const Pointer& object) {
  std::vector<SharedString> keys;
  for (size_t i = 0; i < indexes_.size(); ++i) {
    keys.clear();
    indexes_[i].keys(*object, &keys);
    for (SharedString& key : keys) buckets_[i][std::move(key)].push_back(object);
  }
}

template <typename T>
void Store<T>::RemoveFromIndexes(const Pointer& object) {
  std::vector<SharedString> keys;
  for (size_t i = 0; i < indexes_.size(); ++i) {
    keys.clear();
    indexes_[i].keys(*object, &keys);
    for (const SharedString& key : keys) {
      auto bucket = buckets_[i].find(key.view());
      if (bucket == buckets_[i].end()) continue;  // the same key twice
      std::erase(bucket->second, object);
      if (bucket->second.empty()) buckets_[i].erase(bucket);
    }
  }
}

template <typename T>
CacheChange<T> Store<T>::SetLocked(Pointer object) {
  CacheChange<T> change{nullptr, object};
  if (auto node = objects_.extract(object); !node.empty()) {
    change.before = std::move(node.value());
    RemoveFromIndexes(change.before);
    node.value() = object;
    objects_.insert(std::move(node));
  } else {
    objects_.insert(object);
  }
  AddToIndexes(object);
  return change;
}

template <typename T>
CacheChange<T> Store<T>::Set(Pointer object) {
  MutexLock lock(mutex_);
  return SetLocked(std::move(object));
}

template <typename T>
CacheChange<T> Store<T>::Remove(std::string_view ns, std::string_view name) {
  MutexLock lock(mutex_);
  auto found = objects_.find(Key{ns, name});
  if (found == objects_.end()) return {};
  CacheChange<T> change{*found, nullptr};
  objects_.erase(found);
  RemoveFromIndexes(change.before);
  return change;
}

template <typename T>
std::vector<CacheChange<T>> Store<T>::Replace(std::vector<Pointer> objects) {
  std::vector<CacheChange<T>> changes;
  MutexLock lock(mutex_);
  std::unordered_set<Pointer, Hash, Equal> gone;
  gone.swap(objects_);
  objects_.reserve(objects.size());
  for (Pointer& object : objects) {
    auto node = gone.extract(object);
    if (node.empty()) {
      changes.push_back(SetLocked(std::move(object)));
    } else if (node.value()->meta.uid == object->meta.uid &&
               node.value()->meta.resource_version == object->meta.resource_version) {
      objects_.insert(std::move(node));
    } else {
      RemoveFromIndexes(node.value());
      CacheChange<T> change = SetLocked(std::move(object));
      change.before = std::move(node.value());
      changes.push_back(std::move(change));
    }
  }
  for (const Pointer& object : gone) {
    RemoveFromIndexes(object);
    changes.push_back({object, nullptr});
  }
  return changes;
}

template <typename T>
Cache<T>::Cache(ReflectorOptions options, CacheEnvironment environment, std::vector<CacheIndex<T>> indexes)
    : display_name_(options.resource.Display()),
      clock_(environment.clock),
      objects_gauge_(
          environment.metrics
              .GaugeFamily({"paceline_cache_objects", "Objects held by a cache of the API server", {"resource"}})
              .With({display_name_})),
      store_(std::move(indexes)),
      reflector_(std::move(options), environment.transport, *this, environment.clock, environment.log,
                 environment.metrics) {}

template <typename T>
Cache<T>::~Cache() {
  Stop();
}

template <typename T>
void Cache<T>::AddHandler(Handler handler) {
  CHECK(!thread_.joinable());
  handlers_.push_back(std::move(handler));
}

template <typename T>
void Cache<T>::Start() {
  CHECK(!thread_.joinable());
  thread_ = std::jthread([this](std::stop_token stop) { reflector_.Run(std::move(stop)); });
}

template <typename T>
void Cache<T>::Stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

template <typename T>
bool Cache<T>::HasSynced() const {
  MutexLock lock(mutex_);
  return has_synced_;
}

template <typename T>
Status Cache<T>::WaitForSync(Deadline deadline, std::stop_token stop) const {
  {
    MutexLock lock(mutex_);
    while (!has_synced_ && !stop.stop_requested() && !deadline.Expired(clock_)) {
      synced_changed_.WaitUntil(lock, clock_, deadline.when(), stop);
    }
    if (has_synced_) return {};
  }
  if (stop.stop_requested()) return CancelledError("wait for the cache of " + display_name_);
  const Status why = State().last_error;
  return DeadlineExceededError("the cache of " + display_name_ + " has not synced" +
                               (why.ok() ? std::string() : ": " + why.message()));
}

template <typename T>
Result<std::shared_ptr<const T>> Cache<T>::Decode(std::string_view object, Encoding encoding) {
  return encoding == Encoding::kProtobuf ? DecodeProtobuf<T>(object, &pool_) : DecodeJson<T>(object, &pool_);
}

template <typename T>
void Cache<T>::Notify(const CacheChange<T>& change) {
  for (const Handler& handler : handlers_) handler(change);
}

template <typename T>
void Cache<T>::BeginList() {
  listed_.clear();
}

template <typename T>
Status Cache<T>::AddListItem(std::string_view object, Encoding encoding) {
  ASSIGN_OR_RETURN(std::shared_ptr<const T> decoded, Decode(object, encoding));
  listed_.push_back(std::move(decoded));
  return {};
}

template <typename T>
void Cache<T>::EndList() {
  std::vector<CacheChange<T>> changes = store_.Replace(std::exchange(listed_, {}));
  objects_gauge_.Set(static_cast<double>(store_.size()));
  for (const CacheChange<T>& change : changes) Notify(change);
  pool_.Sweep();
  MutexLock lock(mutex_);
  has_synced_ = true;
  synced_changed_.NotifyAll();
}

template <typename T>
Status Cache<T>::ApplyEvent(WatchEventType type, std::string_view object, Encoding encoding,
                            std::string* resource_version) {
  ASSIGN_OR_RETURN(std::shared_ptr<const T> decoded, Decode(object, encoding));
  *resource_version = decoded->meta.resource_version.view();
  CacheChange<T> change;
  if (type == WatchEventType::kDeleted) {
    change = store_.Remove(decoded->meta.ns, decoded->meta.name);
    if (change.before == nullptr) return {};
    change.before = std::move(decoded);  // the state it was deleted in, which may be newer than the one we had
  } else {
    change = store_.Set(std::move(decoded));
  }
  objects_gauge_.Set(static_cast<double>(store_.size()));
  Notify(change);
  return {};
}

}  // namespace paceline::kube
