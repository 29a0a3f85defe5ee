#include "lib/kube/reflector.h"

#include <algorithm>
#include <optional>

#include "lib/kube/errors.h"
#include "lib/kube/watch_frames.h"
#include "lib/kube/wire_json.h"
#include "lib/kube/wire_proto.h"

namespace paceline::kube {
namespace {

using std::chrono::duration_cast;
using std::chrono::seconds;

constexpr int kPageSize = 500;
constexpr seconds kVeryShortWatch{1};
// Past the time at which the server was asked to end a watch, we end it.
constexpr seconds kWatchGrace{30};

constexpr std::string_view kInitialEventsEnd = "k8s.io/initial-events-end";

uint64_t Seed(uint64_t wanted) { return wanted != 0 ? wanted : std::random_device()(); }

struct Bookmark {
  std::string resource_version;
  bool ends_initial_events = false;
};

void ReadBookmarkMeta(std::string_view message, Bookmark* out) {
  ProtoReader meta(message);
  for (ProtoField field; meta.Next(&field);) {
    if (field.number == 6) out->resource_version = field.bytes;
    if (field.number == 12 && field.bytes.find(kInitialEventsEnd) != std::string_view::npos) {
      out->ends_initial_events = true;
    }
  }
}

// A bookmark is an object of the watched kind of which only metadata.resourceVersion and an annotation mean anything.
Bookmark ReadBookmark(const WatchFrame& frame) {
  Bookmark out;
  if (frame.encoding == Encoding::kProtobuf) {
    ProtoReader object(frame.object);
    for (ProtoField field; object.Next(&field);) {
      if (field.number == 1) ReadBookmarkMeta(field.bytes, &out);
    }
    return out;
  }
  JsonReader reader(frame.object);
  std::string_view key, text;
  for (reader.EnterObject(); reader.NextKey(&key);) {
    if (key != "metadata") {
      reader.Skip();
      continue;
    }
    for (reader.EnterObject(); reader.NextKey(&key);) {
      const bool is_version = key == "resourceVersion", is_annotations = key == "annotations";
      if (!reader.Skip(&text)) break;
      if (is_version && text.size() >= 2) out.resource_version = text.substr(1, text.size() - 2);
      if (is_annotations) out.ends_initial_events = text.find(kInitialEventsEnd) != std::string_view::npos;
    }
  }
  return out;
}

ApiStatus ReadErrorEvent(const WatchFrame& frame) {
  return frame.encoding == Encoding::kProtobuf ? ParseApiStatusProtobuf(frame.object) : ParseApiStatus(0, frame.object);
}

}  // namespace

// What one watch request has seen.
struct WatchRun {
  TimePoint began, last_heard;
  bool is_listing = false;  // a streaming list whose end has not come yet
  uint64_t frames = 0;
  std::optional<ApiStatus> error;  // an ERROR event
};

Reflector::Reflector(ReflectorOptions options, net::HttpTransport& transport, WatchSink& sink, const Clock& clock,
                     Logger& log, MetricsRegistry& metrics)
    : options_(std::move(options)),
      transport_(transport),
      sink_(sink),
      clock_(clock),
      log_(log),
      counters_([this, &metrics] {
        auto& requests = metrics.CounterFamily({"paceline_cache_requests_total",
                                                "Lists and watches that a cache of the API server began",
                                                {"resource", "verb"}});
        auto& events = metrics.CounterFamily({"paceline_cache_events_total",
                                              "Watch events that a cache of the API server received",
                                              {"resource", "type"}});
        auto& skipped = metrics.CounterFamily({"paceline_cache_skipped_objects_total",
                                               "Objects that a cache of the API server could not decode",
                                               {"resource"}});
        const std::string name = options_.resource.Display();
        return Counters{requests.With({name, "list"}),  requests.With({name, "watch"}),
                        events.With({name, "added"}),   events.With({name, "modified"}),
                        events.With({name, "deleted"}), events.With({name, "bookmark"}),
                        events.With({name, "error"}),   skipped.With({name})};
      }()),
      random_(Seed(options_.random_seed)),
      can_stream_lists_(options_.list_mode == ListMode::kStream) {}

Reflector::~Reflector() = default;

void Reflector::Run(std::stop_token stop) {
  Next next = Next::kList;
  while (!stop.stop_requested()) {
    const Outcome outcome = next == Next::kList && !can_stream_lists_ ? List(stop) : Watch(next, stop);
    next = outcome.next;
    if (stop.stop_requested()) return;
    Report(outcome);
    if (outcome.needs_backoff) clock_.SleepFor(NextBackoff(), stop);
  }
}

ReflectorState Reflector::State() const {
  MutexLock lock(mutex_);
  return state_;
}

Reflector::Outcome Reflector::List(std::stop_token stop) {
  counters_.lists.Add();
  {
    MutexLock lock(mutex_);
    ++state_.lists;
  }
  ApiStatus refusal;
  // "0" is served from the server's watch cache; later lists must not be older than what has been seen.
  const std::string from = is_version_unavailable_ ? "" : resource_version_.empty() ? "0" : resource_version_;
  Status status = ListPages(from, &refusal, stop);
  if (!status.ok() && !from.empty() && (IsExpired(refusal) || IsResourceVersionTooLarge(refusal))) {
    status = ListPages("", &refusal, stop);
  }
  if (!status.ok()) return {Next::kList, std::move(status), /*needs_backoff=*/true};
  sink_.EndList();
  is_version_unavailable_ = false;
  MutexLock lock(mutex_);
  state_.has_listed = true;
  state_.resource_version = resource_version_;
  return {Next::kWatch};
}

// With "" as resource version the server reads from its database, in pages; otherwise it gives everything at once from
// memory, and paging would only send the request to the database after all.
Status Reflector::ListPages(std::string_view resource_version, ApiStatus* refusal, std::stop_token stop) {
  const std::string what = "list " + options_.resource.Display();
  const Deadline deadline = Deadline::After(clock_, options_.list_timeout);
  std::string query = resource_version.empty() ? "limit=" + std::to_string(kPageSize)
                                               : "resourceVersion=" + net::UrlEncode(std::string(resource_version));
  sink_.BeginList();
  for (std::string token;;) {
    ListSplitter splitter([this](std::string_view item, Encoding encoding) {
      if (Status status = sink_.AddListItem(item, encoding); !status.ok()) Skipped(status);
      return Status();
    });
    const std::string page = token.empty() ? query : query + "&continue=" + net::UrlEncode(token);
    Result<net::HttpResponse> response = transport_.Stream(
        Request(Path(page)), [&splitter](std::string_view piece) { return splitter.Feed(piece); },
        options_.list_idle_timeout, deadline, stop);
    if (!response.ok()) return response.status().Annotate(what);
    if (response->status != 200) {
      *refusal = ParseApiStatus(response->status, response->body);
      return ToStatus(*refusal, what);
    }
    if (Status status = splitter.Finish(); !status.ok()) return status.Annotate(what);
    token = splitter.continue_token();
    if (token.empty()) {
      resource_version_ = splitter.resource_version();
      return {};
    }
  }
}

Reflector::Outcome Reflector::Watch(Next what, std::stop_token stop) {
  counters_.watches.Add();
  {
    MutexLock lock(mutex_);
    ++state_.watches;
  }
  WatchRun run{.began = clock_.Now(), .last_heard = clock_.Now(), .is_listing = what == Next::kList};
  const auto least = duration_cast<seconds>(options_.min_watch_time);
  const seconds time(least.count() + static_cast<int64_t>(random_() % (least.count() + 1)));
  std::string query = "watch=true&allowWatchBookmarks=true&timeoutSeconds=" + std::to_string(time.count());
  if (run.is_listing) {
    query += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    sink_.BeginList();
  } else {
    query += "&resourceVersion=" + net::UrlEncode(resource_version_);
  }
  WatchSplitter splitter([this, &run](const WatchFrame& frame) { return HandleFrame(frame, &run); });
  const Result<net::HttpResponse> response = transport_.Stream(
      Request(Path(query)), [&splitter](std::string_view piece) { return splitter.Feed(piece); },
      options_.watch_idle_timeout, Deadline::After(clock_, time + kWatchGrace), stop);
  return AfterWatch(run, response);
}

Status Reflector::HandleFrame(const WatchFrame& frame, WatchRun* run) {
  ++run->frames;
  run->last_heard = clock_.Now();
  if (reported_ != StatusCode::kOk && frame.type != "ERROR") Report({Next::kWatch});
  if (frame.type == "BOOKMARK") {
    HandleBookmark(frame, run);
    return {};
  }
  if (frame.type == "ERROR") {
    counters_.errors.Add();
    run->error = ReadErrorEvent(frame);
    return ToStatus(*run->error, "watch " + options_.resource.Display());
  }
  const bool is_added = frame.type == "ADDED", is_modified = frame.type == "MODIFIED";
  if (!is_added && !is_modified && frame.type != "DELETED") return {};  // of a future that we do not know
  if (run->is_listing && is_added) {
    if (Status status = sink_.AddListItem(frame.object, frame.encoding); !status.ok()) Skipped(status);
    return {};
  }
  (is_added ? counters_.added : is_modified ? counters_.modified : counters_.deleted).Add();
  const WatchEventType type = is_added      ? WatchEventType::kAdded
                              : is_modified ? WatchEventType::kModified
                                            : WatchEventType::kDeleted;
  std::string resource_version;
  if (Status status = sink_.ApplyEvent(type, frame.object, frame.encoding, &resource_version); !status.ok()) {
    Skipped(status);
  }
  if (!resource_version.empty()) Advance(std::move(resource_version));
  MutexLock lock(mutex_);
  ++state_.events;
  return {};
}

void Reflector::HandleBookmark(const WatchFrame& frame, WatchRun* run) {
  counters_.bookmarks.Add();
  gets_bookmarks_ = true;
  Bookmark bookmark = ReadBookmark(frame);
  if (bookmark.resource_version.empty()) return;
  if (!run->is_listing) {
    Advance(std::move(bookmark.resource_version));
  } else if (bookmark.ends_initial_events) {
    run->is_listing = false;
    is_version_unavailable_ = false;
    Advance(std::move(bookmark.resource_version));
    sink_.EndList();
    MutexLock lock(mutex_);
    state_.has_listed = true;
  }
}

// Why the watch ended decides where to go on. Whatever was cut in between goes on from the last resource version, since
// the server says so itself when that is too old.
Reflector::Outcome Reflector::AfterWatch(const WatchRun& run, const Result<net::HttpResponse>& response) {
  const std::string what = "watch " + options_.resource.Display();
  if (run.is_listing) {  // refused, or ended before the list was whole
    if (run.error.has_value() || (response.ok() && response->status != 200)) can_stream_lists_ = false;
    const Status why = run.error.has_value() ? ToStatus(*run.error, what)
                       : response.ok()       ? ToStatus(*response, what)
                                             : response.status().Annotate(what);
    return {Next::kList, why, /*needs_backoff=*/can_stream_lists_};
  }
  if (run.error.has_value()) return AfterRefusal(*run.error, what);
  if (!response.ok()) {
    // Kinds that the server does not cache (events) have no bookmarks: nothing happened, so nothing came.
    const bool was_quiet = !gets_bookmarks_ && clock_.Now() - run.last_heard >= options_.watch_idle_timeout;
    if (was_quiet) return {Next::kWatch};
    const bool was_alive = clock_.Now() - run.began >= kVeryShortWatch && run.frames > 0;
    return {Next::kWatch, response.status().Annotate(what), /*needs_backoff=*/!was_alive};
  }
  if (response->status != 200) return AfterRefusal(ParseApiStatus(response->status, response->body), what);
  if (run.frames == 0 && clock_.Now() - run.began < kVeryShortWatch) {
    return {Next::kList, UnavailableError(what + ": ended at once, without events"), /*needs_backoff=*/true};
  }
  return {Next::kWatch};
}

Reflector::Outcome Reflector::AfterRefusal(const ApiStatus& refusal, std::string_view what) {
  Status status = ToStatus(refusal, what);
  if (IsResourceVersionTooLarge(refusal)) {
    is_version_unavailable_ = true;
    return {Next::kList, std::move(status), /*needs_backoff=*/true};
  }
  if (IsExpired(refusal)) {
    // The next list is at once, unless lists, too, give versions that expire while they are read.
    const bool is_again = last_expired_ != TimePoint() && clock_.Now() - last_expired_ < options_.backoff_reset;
    last_expired_ = clock_.Now();
    return {Next::kList, std::move(status), /*needs_backoff=*/is_again};
  }
  const bool is_overloaded = refusal.code == 429 || refusal.code == 503;
  return {is_overloaded || refusal.code == 401 ? Next::kWatch : Next::kList, std::move(status), /*needs_backoff=*/true};
}

void Reflector::Skipped(const Status& status) {
  counters_.skipped.Add();
  uint64_t skipped = 0;
  {
    MutexLock lock(mutex_);
    skipped = ++state_.skipped;
  }
  // Each power of two: a server that sends many of them must not fill the log.
  if ((skipped & (skipped - 1)) != 0) return;
  log_.Error("object skipped", {{"resource", options_.resource.Display()}, {"skipped", skipped}, {"error", status}});
}

void Reflector::Advance(std::string resource_version) {
  resource_version_ = std::move(resource_version);
  MutexLock lock(mutex_);
  state_.resource_version = resource_version_;
}

void Reflector::Report(const Outcome& outcome) {
  {
    MutexLock lock(mutex_);
    state_.last_error = outcome.status;
  }
  const StatusCode code = outcome.status.code();
  if (code == reported_) return;
  reported_ = code;
  const std::string resource = options_.resource.Display();
  if (outcome.status.ok()) {
    log_.Info("cache follows the API server", {{"resource", resource}});
  } else if (code == StatusCode::kAborted) {
    log_.Info("watch expired, listing again", {{"resource", resource}, {"error", outcome.status}});
  } else {
    log_.Warn("cache cannot follow the API server, retrying", {{"resource", resource}, {"error", outcome.status}});
  }
}

Duration Reflector::NextBackoff() {
  const TimePoint now = clock_.Now();
  if (backoff_ == Duration::zero() || now - last_failure_ > options_.backoff_reset) {
    backoff_ = options_.initial_backoff;
  } else {
    backoff_ = std::min(backoff_ * 2, options_.max_backoff);
  }
  last_failure_ = now;
  // Full jitter on top, so that many clients of a server that comes back do not come back together.
  const double jitter = std::uniform_real_distribution<double>(0, 1)(random_);
  return backoff_ + Duration(static_cast<int64_t>(static_cast<double>(backoff_.count()) * jitter));
}

std::string Reflector::Path(std::string_view query) const {
  const Resource& resource = options_.resource;
  std::string path =
      resource.group.empty() ? "/api/" + resource.version : "/apis/" + resource.group + "/" + resource.version;
  if (!options_.ns.empty()) path += "/namespaces/" + net::UrlEncode(options_.ns);
  path += "/" + resource.plural + "?" + std::string(query);
  if (!options_.label_selector.empty()) path += "&labelSelector=" + net::UrlEncode(options_.label_selector);
  if (!options_.field_selector.empty()) path += "&fieldSelector=" + net::UrlEncode(options_.field_selector);
  return path;
}

net::HttpRequest Reflector::Request(std::string target) const {
  net::HttpRequest request;
  request.target = std::move(target);
  request.headers["Accept"] = options_.preferred_encoding == Encoding::kProtobuf
                                  ? "application/vnd.kubernetes.protobuf,application/json"
                                  : "application/json";
  return request;
}

}  // namespace paceline::kube
