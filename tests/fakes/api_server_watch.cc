#include <algorithm>
#include <cstdlib>

#include "tests/fakes/api_server_select.h"
#include "tests/fakes/api_server_target.h"

namespace paceline::fakes {
namespace {

// A watch without timeoutSeconds, as the real server's default minimum.
constexpr Duration kDefaultWatchTime = std::chrono::seconds(1800);

std::string Frame(const char* type, const Json& object) {
  return Json{{"type", type}, {"object", object}}.dump() + "\n";
}

}  // namespace

struct ApiServer::WatchOrder {
  kube::Resource resource;  // as stored
  bool is_core_event = false;
  std::string ns;
  Selector selector;
  bool has_bookmarks = false;
  bool is_streaming_list = false;
  bool starts_with_state = false;
  uint64_t from = 0;
  TimePoint end;      // the server ends it then
  Deadline deadline;  // the client does
  Duration idle_timeout{};
};

struct ApiServer::WatchCursor {
  uint64_t version = 0;  // everything up to here was seen
  bool has_started = false;
  bool is_over = false;
  uint64_t drops = 0;
  uint64_t bookmarks = 0;
  TimePoint silent_since{};
};

Result<ApiServer::WatchOrder> ApiServer::ParseWatch(const Target& target, Reply& refusal) {
  const kube::Resource& shown = target.is_core_event ? kube::kCoreEvents : *target.resource;
  std::string fields = target.Query("fieldSelector");
  Result<Selector> selector = Selector::Parse(shown, target.Query("labelSelector"), fields);
  if (!selector.ok()) {
    refusal = Failure(400, "BadRequest", selector.status().message());
    return selector.status();
  }
  const std::string version = target.Query("resourceVersion");
  const bool is_streaming = target.Flag("sendInitialEvents");
  const bool is_forbidden = streaming_lists_ == StreamingLists::kRefused;
  if (is_streaming && (is_forbidden || target.Query("resourceVersionMatch") != "NotOlderThan")) {
    const std::string why = is_forbidden
                                ? "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless "
                                  "the WatchList feature gate is enabled"
                                : "resourceVersionMatch: Forbidden: sendInitialEvents needs NotOlderThan";
    refusal = Failure(422, "Invalid", "ListOptions.meta.k8s.io \"\" is invalid: " + why);
    return InvalidArgumentError(why);
  }
  const int64_t seconds = std::strtoll(target.Query("timeoutSeconds").c_str(), nullptr, 10);
  WatchOrder order{*target.resource,
                   target.is_core_event,
                   target.key.ns,
                   *std::move(selector),
                   target.Flag("allowWatchBookmarks"),
                   is_streaming,
                   is_streaming || version.empty() || version == "0",
                   std::strtoull(version.c_str(), nullptr, 10),
                   clock_.Now() + (seconds > 0 ? std::chrono::seconds(seconds) : kDefaultWatchTime),
                   Deadline::Infinite()};
  return order;
}

Result<net::HttpResponse> ApiServer::Stream(const net::HttpRequest& request, const net::BodyConsumer& consumer,
                                            Duration idle_timeout, Deadline deadline, const std::stop_token& stop) {
  Result<Target> target = Target{};
  Result<WatchOrder> order = InternalError("not a watch");
  Reply refusal;
  {
    MutexLock lock(mutex_);
    target = Parse(request);
    if (target.ok() && target->resource != nullptr && target->Flag("watch")) order = ParseWatch(*target, refusal);
  }
  if (!target.ok() || target->resource == nullptr || !target->Flag("watch")) {
    ASSIGN_OR_RETURN(net::HttpResponse response, Send(request, deadline, stop));
    if (response.status >= 300) return response;
    RETURN_IF_ERROR(consumer(std::exchange(response.body, "")));
    return response;
  }
  if (const std::optional<Fault> fault = Arrive(request)) {
    if (fault->status == 0) return UnavailableError("connection reset by peer (injected)");
    Reply reply = Failure(fault->status, fault->status == 410 ? "Expired" : "", "injected");
    reply.headers = fault->headers;
    return ToResponse(reply);
  }
  if (!order.ok()) return ToResponse(refusal);
  order->deadline = deadline;
  order->idle_timeout = idle_timeout;
  RETURN_IF_ERROR(RunWatch(*order, consumer, stop));
  net::HttpResponse response;
  response.status = 200;
  response.headers["Content-Type"] = "application/json";
  return response;
}

Status ApiServer::RunWatch(const WatchOrder& order, const net::BodyConsumer& consumer, const std::stop_token& stop) {
  WatchCursor cursor;
  {
    MutexLock lock(mutex_);
    ++watches_;
    cursor.drops = drops_;
    cursor.bookmarks = bookmarks_;
  }
  cursor.silent_since = clock_.Now();
  Status end;
  while (end.ok() && !cursor.is_over) {
    std::string frames;
    end = AwaitFrames(order, cursor, stop, frames);
    if (frames.empty()) continue;
    end = consumer(frames);
    cursor.silent_since = clock_.Now();
  }
  MutexLock lock(mutex_);
  --watches_;
  return end;
}

// Blocks until there are frames or the watch is over, cleanly (cursor.is_over) or with an error.
Status ApiServer::AwaitFrames(const WatchOrder& order, WatchCursor& cursor, const std::stop_token& stop,
                              std::string& frames) {
  const TimePoint idle_end =
      order.idle_timeout == Duration::max() ? TimePoint::max() : cursor.silent_since + order.idle_timeout;
  MutexLock lock(mutex_);
  while (true) {
    if (stop.stop_requested()) return CancelledError("stopped");
    if (order.deadline.Expired(clock_)) return DeadlineExceededError("watch");
    if (cursor.drops != drops_) {
      cursor.is_over = true;
      return last_drop_ == WatchEnd::kClean ? Status() : UnavailableError("connection reset by peer (dropped)");
    }
    if (!is_stalled_) frames = NextFrames(order, cursor);
    if (!frames.empty()) return Status();
    const TimePoint now = clock_.Now();
    if (now >= idle_end) return UnavailableError("idle: nothing received");
    const TimePoint server_end = is_stalled_ ? TimePoint::max() : order.end;
    if (now >= server_end) {
      cursor.is_over = true;
      return Status();
    }
    changed_.WaitUntil(lock, clock_, std::min({idle_end, server_end, order.deadline.when()}), stop);
  }
}

std::string ApiServer::NextFrames(const WatchOrder& order, WatchCursor& cursor) {
  std::string frames;
  auto emit = [&](const char* type, const Json& object) {
    frames += Frame(type, Present(order.is_core_event, object));
  };
  auto matches = [&](const std::shared_ptr<const Json>& object) {
    return object != nullptr && order.selector.Matches(Present(order.is_core_event, *object));
  };
  auto bookmark = [&](bool is_initial_end) {
    Json object = {{"kind", order.resource.kind},
                   {"apiVersion", order.resource.ApiVersion()},
                   {"metadata", {{"resourceVersion", std::to_string(cursor.version)}, {"creationTimestamp", nullptr}}}};
    if (is_initial_end) object["metadata"]["annotations"] = {{"k8s.io/initial-events-end", "true"}};
    emit("BOOKMARK", object);
  };
  if (!cursor.has_started) {
    cursor.has_started = true;
    cursor.version = order.from;
    if (order.starts_with_state) {
      for (const auto& object : store_.All(order.resource, order.ns)) {
        if (matches(object)) emit("ADDED", *object);
      }
      cursor.version = store_.version();
      if (order.is_streaming_list && streaming_lists_ == StreamingLists::kFailed) {
        cursor.is_over = true;
        return frames + Frame("ERROR", Failure(500, "InternalError", "the storage gives no initial events").body);
      }
      if (order.is_streaming_list && order.has_bookmarks) bookmark(/*is_initial_end=*/true);
    }
  }
  // The compaction itself took a version that no change has.
  if (cursor.version + 1 < store_.compacted()) {
    cursor.is_over = true;
    frames += Frame("ERROR", Failure(410, "Expired", "too old resource version").body);
    return frames;
  }
  auto first_unseen = std::partition_point(store_.history().begin(), store_.history().end(),
                                           [&](const Change& change) { return change.version <= cursor.version; });
  for (auto it = first_unseen; it != store_.history().end(); ++it) {
    cursor.version = it->version;
    if (it->resource != order.resource) continue;
    const Json& any = it->after != nullptr ? *it->after : *it->before;
    if (!order.ns.empty() && any["metadata"]["namespace"] != order.ns) continue;
    const bool was_seen = matches(it->before);
    const bool is_seen = matches(it->after);
    if (is_seen) emit(was_seen ? "MODIFIED" : "ADDED", *it->after);
    if (!was_seen || is_seen) continue;
    Json last = *it->before;
    last["metadata"]["resourceVersion"] = std::to_string(it->version);
    emit("DELETED", last);
  }
  if (cursor.bookmarks != bookmarks_) {
    cursor.bookmarks = bookmarks_;
    cursor.version = store_.version();
    if (order.has_bookmarks) bookmark(/*is_initial_end=*/false);
  }
  return frames;
}

}  // namespace paceline::fakes
