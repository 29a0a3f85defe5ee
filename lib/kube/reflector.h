// Keeps one resource type mirrored: lists it, watches it, and begins again from the right place whenever the server or
// the network ends the watch. Behaviour and numbers are client-go's, because API servers are tuned to them.
//
// What is listed and watched is decoded by a WatchSink (Cache<T> is one). Both encodings are asked for, protobuf first;
// the first byte tells which one came. One thread per reflector: Run blocks on it.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/metrics.h"
#include "lib/base/mutex.h"
#include "lib/base/status.h"
#include "lib/kube/resource.h"
#include "lib/net/http.h"

namespace paceline::kube {

enum class Encoding { kProtobuf, kJson };

enum class WatchEventType { kAdded, kModified, kDeleted };

// Receives what a reflector reads, on the reflector's thread. `object` is one object in `encoding`, valid for the call.
// A failure means that the object could not be decoded; the reflector counts it, tells its log, and goes on without it.
class WatchSink {
 public:
  virtual ~WatchSink() = default;
  // A new list begins; items of an unfinished one are dropped.
  virtual void BeginList() = 0;
  virtual Status AddListItem(std::string_view object, Encoding encoding) = 0;
  // The list is whole: it replaces everything, and what is no longer in it has been deleted.
  virtual void EndList() = 0;
  // `resource_version` becomes the object's own, from which a cut watch goes on.
  virtual Status ApplyEvent(WatchEventType type, std::string_view object, Encoding encoding,
                            std::string* resource_version) = 0;
};

enum class ListMode {
  kList,    // a list, then a watch
  kStream,  // a watch that begins with the existing objects (sendInitialEvents); falls back to kList when refused
};

struct ReflectorOptions {
  Resource resource;
  std::string ns;  // empty: all namespaces
  std::string label_selector;
  std::string field_selector;
  Encoding preferred_encoding = Encoding::kProtobuf;  // kJson for custom resources, which have no protobuf form
  ListMode list_mode = ListMode::kList;

  Duration min_watch_time = std::chrono::minutes(5);  // the server is asked to end a watch after 1 to 2 times this
  Duration initial_backoff = std::chrono::milliseconds(800);  // doubled per failure, up to twice as long by jitter
  Duration max_backoff = std::chrono::seconds(30);
  Duration backoff_reset = std::chrono::minutes(2);  // without a failure
  Duration list_timeout = std::chrono::minutes(5);
  // A list makes the server encode for a while; a healthy watch has a bookmark about once a minute.
  Duration list_idle_timeout = std::chrono::seconds(60);
  Duration watch_idle_timeout = std::chrono::seconds(100);
  uint64_t random_seed = 0;  // 0: from the system; tests fix it
};

struct ApiStatus;
struct WatchFrame;
struct WatchRun;

// A reading of how the mirror stands, for probes and status conditions.
struct ReflectorState {
  bool has_listed = false;       // at least one list was complete
  Status last_error;             // of the latest attempt; ok once a list or a watch works again
  std::string resource_version;  // up to where the mirror is
  uint64_t lists = 0;
  uint64_t watches = 0;
  uint64_t events = 0;   // without bookmarks
  uint64_t skipped = 0;  // objects that could not be decoded
};

class Reflector {
 public:
  // Everything passed by reference must outlive the reflector.
  Reflector(ReflectorOptions options, net::HttpTransport& transport, WatchSink& sink, const Clock& clock, Logger& log,
            MetricsRegistry& metrics);
  ~Reflector();
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  // Lists and watches until `stop`. Failures are retried for ever with backoff: a missing kind (404) or right (403)
  // shows in State() and in the log, once per change.
  void Run(std::stop_token stop);

  // Thread-safe.
  ReflectorState State() const EXCLUDES(mutex_);

 private:
  struct Counters {
    Counter &lists, &watches, &added, &modified, &deleted, &bookmarks, &errors, &skipped;
  };
  // What to do after a list or a watch has ended.
  enum class Next { kList, kWatch };
  struct Outcome {
    Next next = Next::kList;
    Status status;  // why; ok for an ordinary end
    bool needs_backoff = false;
  };

  Outcome List(std::stop_token stop) EXCLUDES(mutex_);
  Status ListPages(std::string_view resource_version, ApiStatus* refusal, std::stop_token stop);
  Outcome Watch(Next what, std::stop_token stop) EXCLUDES(mutex_);  // kList: beginning with a streaming list
  Status HandleFrame(const WatchFrame& frame, WatchRun* run);
  void HandleBookmark(const WatchFrame& frame, WatchRun* run);
  Outcome AfterWatch(const WatchRun& run, const Result<net::HttpResponse>& response);
  Outcome AfterRefusal(const ApiStatus& refusal, std::string_view what);
  void Skipped(const Status& status);
  void Advance(std::string resource_version) EXCLUDES(mutex_);
  void Report(const Outcome& outcome) EXCLUDES(mutex_);
  Duration NextBackoff();
  std::string Path(std::string_view query) const;
  net::HttpRequest Request(std::string target) const;

  const ReflectorOptions options_;
  net::HttpTransport& transport_;
  WatchSink& sink_;
  const Clock& clock_;
  Logger& log_;
  Counters counters_;

  // Used by the thread in Run alone.
  std::mt19937_64 random_;
  Duration backoff_{0};
  TimePoint last_failure_;
  std::string resource_version_;         // up to where the mirror is; "" before the first list
  bool is_version_unavailable_ = false;  // the server does not know it (any more): ask for its newest
  bool can_stream_lists_;
  bool gets_bookmarks_ =
      false;  // at least one has come: silence for longer than they take means that nothing gets through
  TimePoint last_expired_;
  StatusCode reported_ = StatusCode::kOk;

  mutable Mutex mutex_;
  ReflectorState state_ GUARDED_BY(mutex_);
};

}  // namespace paceline::kube
