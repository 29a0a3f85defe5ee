// An API server in memory, for tests that need no real one: objects with the real server's rules (api_server_store.h),
// paged lists, watches with bookmarks and streaming lists, selectors, the four kinds of patch, and faults on demand.
// tests/contract runs the same cases against this and a real server, which is how far it can be trusted.
//
// There is no garbage collector, no admission, no schema validation and no authorization here. Watch answers block on
// the clock given, so a SimulatedClock works. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/net/http.h"
#include "tests/fakes/api_server_store.h"

namespace paceline::fakes {

// Something that goes wrong with matching requests.
struct Fault {
  std::string method;                          // empty: any
  std::string target_part;                     // part of path and query; empty: any
  int times = 1;                               // how many requests, then the fault is over; negative: until ClearFaults
  int status = 503;                            // 0: the connection breaks instead
  bool is_carried_out = false;                 // the request is done first; only its answer is lost
  std::map<std::string, std::string> headers;  // e.g. Retry-After
};

enum class WatchEnd { kClean, kBroken };

// What becomes of a watch with sendInitialEvents: served; refused with 422, as by Kubernetes 1.33; or begun, and ended
// in its middle by an ERROR frame, as by a server whose storage cannot do it.
enum class StreamingLists { kServed, kRefused, kFailed };

class ApiServer {
 public:
  // Serves the resources of lib/kube/resource.h, with the namespaces "default" and "kube-system". `clock` must outlive
  // it.
  explicit ApiServer(const Clock& clock);
  ~ApiServer();

  // A client's connection; as many as you like. Must not outlive the server.
  std::unique_ptr<net::HttpTransport> Connect();

  // Serves one more resource, as a custom resource with a status subresource unless said otherwise. Creating a
  // CustomResourceDefinition does the same.
  void AddResource(const kube::Resource& resource);
  void AddResource(const kube::Resource& resource, const ResourceTraits& traits);

  // Writing and reading past HTTP, for the test itself. Put creates or replaces with status, makes the namespace when
  // it is missing, and ends the process when the object is not acceptable.
  Json Put(const kube::Resource& resource, Json object);
  // kNotFound when it is not there.
  Result<Json> Find(const kube::Resource& resource, const kube::ObjectKey& key) const;
  std::vector<Json> All(const kube::Resource& resource) const;
  // Removes at once, whatever the finalizers say.
  void Erase(const kube::Resource& resource, const kube::ObjectKey& key);

  void Inject(Fault fault);
  void ClearFaults();
  // Called before each request is looked at, without a lock, on the client's thread: the place to interleave another
  // write. Null: nothing.
  void SetRequestHook(std::function<void(const net::HttpRequest&)> hook);
  // All versions so far become too old: watches and page tokens from before get 410.
  void Compact();
  // Ends every running watch.
  void DropWatches(WatchEnd end);
  // From now on watches stay open and say nothing, as behind a dead middlebox; false ends that.
  void StallWatches(bool is_stalled);
  // Sends a bookmark on every watch that asked for them.
  void SendBookmarks();
  void SetStreamingLists(StreamingLists how);
  // Evictions are refused with 429 while blocked, as by a PodDisruptionBudget.
  void BlockEvictions(bool is_blocked);

  // "GET /api/v1/pods?limit=500", oldest first.
  std::vector<std::string> Requests() const;
  void ForgetRequests();
  // Watches that run now.
  size_t watches() const;
  std::string resource_version() const;

 private:
  friend class FakeTransport;
  struct Target;       // a parsed URL
  struct WatchOrder;   // what a watch asked for
  struct WatchCursor;  // how far it has read

  Result<net::HttpResponse> Send(const net::HttpRequest& request, Deadline deadline, const std::stop_token& stop);
  Result<net::HttpResponse> Stream(const net::HttpRequest& request, const net::BodyConsumer& consumer,
                                   Duration idle_timeout, Deadline deadline, const std::stop_token& stop);

  // Records the request, runs the hook, and takes the fault that applies to it, if any.
  std::optional<Fault> Arrive(const net::HttpRequest& request);
  Reply Handle(const net::HttpRequest& request);
  Reply HandleLocked(const net::HttpRequest& request, const Target& target) REQUIRES(mutex_);
  Reply ListLocked(const Target& target) REQUIRES(mutex_);
  Reply WriteLocked(const net::HttpRequest& request, const Target& target) REQUIRES(mutex_);
  Reply PostLocked(const Target& target, const Json& body, const WriteContext& context) REQUIRES(mutex_);
  Reply EvictLocked(const Target& target, const Json& body) REQUIRES(mutex_);
  void DefineCustomResource(const Json& definition) REQUIRES(mutex_);
  Result<Target> Parse(const net::HttpRequest& request) const REQUIRES(mutex_);

  Result<WatchOrder> ParseWatch(const Target& target, Reply& refusal) REQUIRES(mutex_);
  Status RunWatch(const WatchOrder& order, const net::BodyConsumer& consumer, const std::stop_token& stop);
  Status AwaitFrames(const WatchOrder& order, WatchCursor& cursor, const std::stop_token& stop, std::string& frames);
  // Frames that the watch has not seen yet; sets cursor.is_over when the stream ends after them.
  std::string NextFrames(const WatchOrder& order, WatchCursor& cursor) REQUIRES(mutex_);

  const Clock& clock_;
  mutable Mutex mutex_;
  CondVar changed_;
  ObjectStore store_ GUARDED_BY(mutex_);
  std::vector<Fault> faults_ GUARDED_BY(mutex_);
  // Shared, not copied, so that a hook may have a state.
  std::shared_ptr<const std::function<void(const net::HttpRequest&)>> hook_ GUARDED_BY(mutex_);
  std::vector<std::string> requests_ GUARDED_BY(mutex_);
  // What is left of paged lists, by continue token.
  std::map<std::string, std::vector<std::shared_ptr<const Json>>> pages_ GUARDED_BY(mutex_);
  uint64_t next_page_ GUARDED_BY(mutex_) = 0;
  size_t watches_ GUARDED_BY(mutex_) = 0;
  uint64_t drops_ GUARDED_BY(mutex_) = 0;
  WatchEnd last_drop_ GUARDED_BY(mutex_) = WatchEnd::kClean;
  uint64_t bookmarks_ GUARDED_BY(mutex_) = 0;
  bool is_stalled_ GUARDED_BY(mutex_) = false;
  StreamingLists streaming_lists_ GUARDED_BY(mutex_) = StreamingLists::kServed;
  bool is_eviction_blocked_ GUARDED_BY(mutex_) = false;
};

}  // namespace paceline::fakes
