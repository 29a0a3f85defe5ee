#include "lib/kube/event_correlator.h"

#include <algorithm>

namespace paceline::kube {
namespace {

constexpr char kSeparator = '\0';  // in no valid name, reason or note that reaches us

std::string KeyOfReference(const ObjectReference& reference) {
  std::string key;
  for (const std::string* part :
       {&reference.api_version, &reference.kind, &reference.ns, &reference.name, &reference.uid}) {
    key += *part;
    key += kSeparator;
  }
  return key;
}

// All that makes two events similar, save the object and the note.
std::string KeyOfGroup(const Event& event) {
  std::string key(event.type == EventType::kWarning ? "W" : "N");
  key += event.reason + kSeparator + event.action + kSeparator;
  if (event.related) key += KeyOfReference(*event.related);
  return key;
}

}  // namespace

EventCorrelator::EventCorrelator(const EventRecorderOptions& options)
    : options_(options), objects_(options.remembered_objects), series_(options.remembered_objects) {}

EventCorrelator::Decision EventCorrelator::Observe(const Event& event, TimePoint now, WallTime wall_now) {
  const std::string object_key = KeyOfReference(event.regarding);
  const std::string group_key = KeyOfGroup(event);
  Object* object = objects_.Find(object_key);
  if (object == nullptr) {
    object = objects_.Insert(object_key, Object{TokenBucket(options_.object_burst, options_.object_refill, now), {}});
  }
  const bool is_combined = IsOneTooMany(object->notes[group_key], event.note, now);
  const std::string series_key = object_key + group_key + (is_combined ? "combined" : "note" + event.note);

  EventSeries* series = series_.Find(series_key);
  if (series != nullptr && now - series->last_seen_at < options_.series_end) {
    ++series->count;
    series->last_seen = wall_now;
    series->last_seen_at = now;
    const bool is_due = series->count == 2 || now - series->last_written_at >= options_.series_refresh;
    return {is_due ? Verdict::kUpdate : Verdict::kCountOnly, series};
  }
  if (!object->budget.TryTake(now)) return {Verdict::kDrop, nullptr};
  if (series != nullptr) series_.Erase(series_key);
  EventSeries fresh{.key = series_key, .event = event, .name = "", .last_seen = wall_now, .last_seen_at = now};
  fresh.last_written_at = now;
  if (is_combined) fresh.event.note = "(combined from similar events): " + event.note;
  return {Verdict::kCreate, series_.Insert(series_key, std::move(fresh))};
}

bool EventCorrelator::IsOneTooMany(std::map<std::string, TimePoint>& notes, const std::string& note,
                                   TimePoint now) const {
  for (auto it = notes.begin(); it != notes.end();) {
    it = now - it->second > options_.similar_window ? notes.erase(it) : std::next(it);
  }
  auto known = notes.find(note);
  if (known != notes.end()) {
    known->second = now;
    return false;
  }
  if (notes.size() >= static_cast<size_t>(options_.similar_limit)) return true;
  notes.emplace(note, now);
  return false;
}

void EventCorrelator::Written(EventSeries& series, TimePoint now) {
  series.written_count = series.count;
  series.last_written_at = now;
}

void EventCorrelator::Forget(const EventSeries& series) {
  const std::string key = series.key;  // `series` goes with the entry
  series_.Erase(key);
}

TimePoint EventCorrelator::DueAt(const EventSeries& series) const {
  const TimePoint end = series.last_seen_at + options_.series_end;
  if (series.written_count == series.count) return end;
  return std::min(end, series.last_written_at + options_.series_refresh);
}

std::vector<EventSeries*> EventCorrelator::Due(TimePoint now) {
  std::vector<EventSeries*> due;
  std::vector<std::string> over;
  for (auto& [key, series] : series_.entries()) {
    if (DueAt(series) > now) continue;
    if (series.written_count < series.count) {
      due.push_back(&series);
    } else {
      over.push_back(key);
    }
  }
  for (const std::string& key : over) series_.Erase(key);
  return due;
}

std::vector<EventSeries*> EventCorrelator::Unwritten() {
  std::vector<EventSeries*> unwritten;
  for (auto& [key, series] : series_.entries()) {
    if (series.written_count < series.count) unwritten.push_back(&series);
  }
  return unwritten;
}

TimePoint EventCorrelator::NextDue() {
  TimePoint next = TimePoint::max();
  for (const auto& [key, series] : series_.entries()) next = std::min(next, DueAt(series));
  return next;
}

}  // namespace paceline::kube
