// Tells users what happened to an object, as Kubernetes Events (events.k8s.io/v1), without ever being a burden: Record
// never blocks, repeats become one event with a counter, a storm is combined and then cut, and what does not fit is
// dropped and counted. Numbers are client-go's.
//
// Callers: controllers, agent. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/log.h"
#include "lib/base/metrics.h"
#include "lib/kube/client.h"

namespace paceline::kube {

// Points at an object, for `regarding` and `related`. `uid` and `resource_version` may be empty.
struct ObjectReference {
  std::string api_version;
  std::string kind;
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;

  auto operator<=>(const ObjectReference&) const = default;
};

// From an object as the API server returns it.
ObjectReference ReferenceTo(const Json& object);

enum class EventType { kNormal, kWarning };

struct Event {
  ObjectReference regarding;
  std::optional<ObjectReference> related;  // e.g. the job, for an event on a node
  EventType type = EventType::kNormal;
  std::string reason;  // CamelCase, <= 128 bytes: why, for machines
  std::string action;  // CamelCase, <= 128 bytes: what was done
  std::string note;    // for people; cut to 1024 bytes, invalid UTF-8 replaced
};

struct EventRecorderOptions {
  std::string controller;  // reportingController, e.g. "paceline.dev/operator"
  std::string instance;    // reportingInstance: the pod's name
  size_t queue_capacity = 1000;
  // More than `similar_limit` different notes under one (object, type, reason, action) within the window are combined.
  int similar_limit = 10;
  Duration similar_window = std::chrono::seconds(600);
  // New events of one object: a burst, then one each period.
  double object_burst = 25;
  Duration object_refill = std::chrono::seconds(300);
  size_t remembered_objects = 4096;
  // A series: its first repeat is written at once, later ones at most once a refresh, the final count when it ended.
  Duration series_refresh = std::chrono::seconds(300);
  Duration series_end = std::chrono::minutes(6);
  int max_tries = 12;
  Duration retry_delay = std::chrono::seconds(10);
};

class EventRecorder {
 public:
  // Starts the sending thread. References must outlive the recorder. Metric: paceline_events_total{result}, result one
  // of created, updated, dropped_queue_full, dropped_rate, dropped_failed.
  static std::unique_ptr<EventRecorder> Start(const EventRecorderOptions& options, Writer& writer, const Clock& clock,
                                              Logger& log, MetricsRegistry& metrics);
  virtual ~EventRecorder() = default;  // Stop with a deadline already passed

  // Takes the event over and returns at once. Dropped, and counted, when the queue is full or after Stop.
  virtual void Record(Event event) = 0;

  // Sends what is queued and the final counts of open series, until `deadline`; later Records are dropped.
  // kDeadlineExceeded with the number of events left. Safe to call twice.
  virtual Status Stop(Deadline deadline) = 0;
};

}  // namespace paceline::kube
