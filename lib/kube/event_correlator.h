// Decides what becomes of one more Event: a new object, another count on a series, or nothing (client-go's aggregation
// and spam filter). Pure bookkeeping with the time given in; EventRecorder's thread is the only user. Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/kube/events.h"
#include "lib/kube/lru_map.h"
#include "lib/kube/rate_limiter.h"

namespace paceline::kube {

// One event object on the server and what was counted onto it.
struct EventSeries {
  std::string key;   // of the correlator
  Event event;       // with the note as it is written
  std::string name;  // of the event object, set by who creates it
  int count = 1;
  int written_count = 1;
  WallTime last_seen{};
  TimePoint last_seen_at{};
  TimePoint last_written_at{};
};

class EventCorrelator {
 public:
  explicit EventCorrelator(const EventRecorderOptions& options);

  enum class Verdict {
    kCreate,     // write series->event as a new object and set series->name
    kUpdate,     // write the series' count now
    kCountOnly,  // a later Due will bring it
    kDrop,       // the object's budget is used up
  };
  struct Decision {
    Verdict verdict;
    EventSeries* series;  // null for kDrop; valid until the next call that is not const
  };

  // Takes one event in; its note must be cut and valid already.
  Decision Observe(const Event& event, TimePoint now, WallTime wall_now);

  // The count of this series was written (or never will be).
  void Written(EventSeries& series, TimePoint now);
  // The event could not be created: the next one like it is a new try.
  void Forget(const EventSeries& series);

  // Series with a count that should be written at `now`. Forgets the ended ones that have nothing to write.
  std::vector<EventSeries*> Due(TimePoint now);
  // All series with a count that is not written.
  std::vector<EventSeries*> Unwritten();
  // When Due may have something; TimePoint::max() for never.
  TimePoint NextDue();

 private:
  struct Object {
    TokenBucket budget;
    // Distinct notes by (type, reason, action, ...), with the last time of each.
    std::map<std::string, std::map<std::string, TimePoint>> notes;
  };

  // True when `note` is one of too many different ones of its group; remembers it otherwise.
  bool IsOneTooMany(std::map<std::string, TimePoint>& notes, const std::string& note, TimePoint now) const;
  TimePoint DueAt(const EventSeries& series) const;

  EventRecorderOptions options_;
  LruMap<std::string, Object> objects_;
  LruMap<std::string, EventSeries> series_;
};

}  // namespace paceline::kube
