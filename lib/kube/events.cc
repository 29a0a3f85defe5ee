#include "lib/kube/events.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <deque>
#include <nlohmann/json.hpp>
#include <thread>

#include "lib/base/mutex.h"
#include "lib/base/utf8.h"
#include "lib/kube/event_correlator.h"
#include "lib/kube/json_fields.h"

namespace paceline::kube {
namespace {

constexpr size_t kMaxNoteBytes = 1024;
constexpr size_t kMaxWordBytes = 128;  // reason, action
constexpr size_t kMaxInstanceBytes = 128;
constexpr size_t kMaxNameBytes = 253;
constexpr Duration kRequestTimeout = std::chrono::seconds(10);
constexpr Duration kLogPeriod = std::chrono::minutes(1);

Json ToJson(const ObjectReference& reference) {
  Json json = {{"apiVersion", reference.api_version}, {"kind", reference.kind}, {"name", reference.name}};
  if (!reference.ns.empty()) json["namespace"] = reference.ns;
  if (!reference.uid.empty()) json["uid"] = reference.uid;
  if (!reference.resource_version.empty()) json["resourceVersion"] = reference.resource_version;
  return json;
}

// The server wants these words non-empty; an event that lacks one is still worth showing.
std::string Word(const std::string& text) { return text.empty() ? "Unknown" : TruncateUtf8(text, kMaxWordBytes); }

// Events of cluster-scoped objects live in "default", where kubectl describe looks for them.
std::string NamespaceOf(const Event& event) { return event.regarding.ns.empty() ? "default" : event.regarding.ns; }

class Recorder final : public EventRecorder {
 public:
  Recorder(const EventRecorderOptions& options, Writer& writer, const Clock& clock, Logger& log,
           MetricsRegistry& registry)
      : options_(options),
        writer_(writer),
        clock_(clock),
        log_(log),
        results_(registry.CounterFamily({"paceline_events_total", "Events by what became of them", {"result"}})),
        correlator_(options) {
    for (const char* result : {"created", "updated", "dropped_queue_full", "dropped_rate", "dropped_failed"}) {
      results_.With({result});
    }
    thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
  }

  ~Recorder() override { Stop(Deadline::At(clock_.Now())).IgnoreError(); /* nobody is left to tell */ }

  void Record(Event event) override {
    bool is_taken = false;
    {
      MutexLock lock(mutex_);
      is_taken = !is_stopped_ && queue_.size() < options_.queue_capacity;
      if (is_taken) queue_.push_back({std::move(event), clock_.WallNow()});
    }
    if (is_taken) {
      wakeup_.NotifyOne();
    } else {
      Count("dropped_queue_full");
    }
  }

  Status Stop(Deadline deadline) override {
    {
      MutexLock lock(mutex_);
      if (!is_stopped_) flush_deadline_ = deadline;
      is_stopped_ = true;
    }
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
    MutexLock lock(mutex_);
    if (queue_.empty()) return Status();
    return DeadlineExceededError(fmt::format("{} events not sent", queue_.size()));
  }

 private:
  struct Entry {
    Event event;
    WallTime when;
  };

  void Run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (std::optional<Entry> entry = Next(stop)) Process(std::move(*entry), stop);
      for (EventSeries* series : correlator_.Due(clock_.Now())) WriteCount(*series, stop);
    }
    Flush(stop);
  }

  // The next event; empty when something is due first, or on stop.
  std::optional<Entry> Next(const std::stop_token& stop) {
    const TimePoint due = correlator_.NextDue();
    MutexLock lock(mutex_);
    while (queue_.empty()) {
      if (stop.stop_requested() || clock_.Now() >= due) return std::nullopt;
      wakeup_.WaitUntil(lock, clock_, due, stop);
    }
    return Pop();
  }

  Entry Pop() REQUIRES(mutex_) {
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    return entry;
  }

  void Flush(const std::stop_token& stop) {
    const Deadline deadline = FlushDeadline();
    while (!deadline.Expired(clock_)) {
      std::optional<Entry> entry;
      {
        MutexLock lock(mutex_);
        if (!queue_.empty()) entry = Pop();
      }
      if (!entry) break;
      Process(std::move(*entry), stop);
    }
    for (EventSeries* series : correlator_.Unwritten()) {
      if (deadline.Expired(clock_)) return;
      WriteCount(*series, stop);
    }
  }

  Deadline FlushDeadline() const {
    MutexLock lock(mutex_);
    return flush_deadline_;
  }

  void Process(Entry entry, const std::stop_token& stop) {
    Event& event = entry.event;
    event.note = TruncateUtf8(event.note, kMaxNoteBytes);
    event.reason = Word(event.reason);
    event.action = Word(event.action);
    const EventCorrelator::Decision decision = correlator_.Observe(event, clock_.Now(), entry.when);
    switch (decision.verdict) {
      case EventCorrelator::Verdict::kCreate: Create(*decision.series, stop); break;
      case EventCorrelator::Verdict::kUpdate: WriteCount(*decision.series, stop); break;
      case EventCorrelator::Verdict::kCountOnly: break;
      case EventCorrelator::Verdict::kDrop: Count("dropped_rate"); break;
    }
  }

  void Create(EventSeries& series, const std::stop_token& stop) {
    series.name = NewName(series);
    const Json object = ToJson(series);
    const Status sent = SendWithRetries(
        stop, [&](Deadline deadline) { return writer_.Create(kEvents, object, {}, deadline).status(); });
    // A create whose answer was lost is there already.
    if (sent.ok() || sent.code() == StatusCode::kAlreadyExists) {
      Count("created");
      return;
    }
    Dropped(series, sent);
    correlator_.Forget(series);
  }

  void WriteCount(EventSeries& series, const std::stop_token& stop) {
    const Json patch = {{"series", SeriesJson(series)}};
    const ObjectKey key{NamespaceOf(series.event), series.name};
    const Status sent = SendWithRetries(stop, [&](Deadline deadline) {
      return writer_.Patch(kEvents, key, PatchType::kMerge, patch, {}, deadline).status();
    });
    if (sent.code() == StatusCode::kNotFound) {
      // The server forgets events after an hour: go on with a new one that carries the count.
      correlator_.Written(series, clock_.Now());
      Create(series, stop);
      return;
    }
    correlator_.Written(series, clock_.Now());
    if (sent.ok()) {
      Count("updated");
    } else {
      Dropped(series, sent);
    }
  }

  template <typename Send>
  Status SendWithRetries(const std::stop_token& stop, const Send& send) {
    for (int tries = 1;; ++tries) {
      Deadline deadline = Deadline::After(clock_, kRequestTimeout);
      if (stop.stop_requested()) deadline = deadline.Min(FlushDeadline());
      const Status sent = send(deadline);
      const bool is_worth_it = sent.code() == StatusCode::kUnavailable || sent.code() == StatusCode::kDeadlineExceeded;
      if (!is_worth_it || tries >= options_.max_tries) return sent;
      if (!clock_.SleepFor(options_.retry_delay, stop)) return sent;
    }
  }

  void Dropped(const EventSeries& series, const Status& why) {
    Count("dropped_failed");
    const TimePoint now = clock_.Now();
    if (now < next_log_) return;
    next_log_ = now + kLogPeriod;
    log_.Warn("event not written, skipped", {{"namespace", NamespaceOf(series.event)},
                                             {"name", series.event.regarding.name},
                                             {"reason", series.event.reason},
                                             {"error", why}});
  }

  // As client-go names them: the object and the time. The counter keeps two events of one nanosecond apart.
  std::string NewName(const EventSeries& series) {
    const int64_t nanos = clock_.WallNow().time_since_epoch().count() + sequence_++;
    const std::string suffix = fmt::format(".{:x}", nanos);
    std::string name = series.event.regarding.name.substr(0, kMaxNameBytes - suffix.size());
    while (!name.empty() && std::isalnum(static_cast<unsigned char>(name.back())) == 0) name.pop_back();
    return (name.empty() ? "event" : name) + suffix;
  }

  Json ToJson(const EventSeries& series) const {
    const Event& event = series.event;
    Json json = {{"apiVersion", kEvents.ApiVersion()},
                 {"kind", kEvents.kind},
                 {"metadata", {{"name", series.name}, {"namespace", NamespaceOf(event)}}},
                 {"eventTime", FormatRfc3339Micro(series.last_seen)},
                 {"type", event.type == EventType::kWarning ? "Warning" : "Normal"},
                 {"reason", event.reason},
                 {"action", event.action},
                 {"note", TruncateUtf8(event.note, kMaxNoteBytes)},  // "(combined ...)" may have made it longer

                 {"reportingController", options_.controller},
                 {"reportingInstance", TruncateUtf8(options_.instance, kMaxInstanceBytes)},
                 {"regarding", kube::ToJson(event.regarding)}};
    if (event.related) json["related"] = kube::ToJson(*event.related);
    if (series.count > 1) json["series"] = SeriesJson(series);
    return json;
  }

  static Json SeriesJson(const EventSeries& series) {
    return {{"count", series.count}, {"lastObservedTime", FormatRfc3339Micro(series.last_seen)}};
  }

  void Count(const char* result) { results_.With({result}).Add(); }

  const EventRecorderOptions options_;
  Writer& writer_;
  const Clock& clock_;
  Logger& log_;
  MetricFamily<Counter>& results_;

  // Used by the thread alone.
  EventCorrelator correlator_;
  TimePoint next_log_{};
  int64_t sequence_ = 0;

  mutable Mutex mutex_;
  CondVar wakeup_;
  std::deque<Entry> queue_ GUARDED_BY(mutex_);
  bool is_stopped_ GUARDED_BY(mutex_) = false;
  Deadline flush_deadline_ GUARDED_BY(mutex_) = Deadline::Infinite();

  std::jthread thread_;  // last: it uses everything above
};

}  // namespace

ObjectReference ReferenceTo(const Json& object) {
  ObjectReference reference;
  reference.api_version = StringField(object, "apiVersion");
  reference.kind = StringField(object, "kind");
  reference.ns = MetadataString(object, "namespace");
  reference.name = MetadataString(object, "name");
  reference.uid = MetadataString(object, "uid");
  reference.resource_version = MetadataString(object, "resourceVersion");
  return reference;
}

std::unique_ptr<EventRecorder> EventRecorder::Start(const EventRecorderOptions& options, Writer& writer,
                                                    const Clock& clock, Logger& log, MetricsRegistry& metrics) {
  return std::make_unique<Recorder>(options, writer, clock, log, metrics);
}

}  // namespace paceline::kube
