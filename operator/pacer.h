// Keeps a controller from looking at the same object again and again while its pods change by the hundred: of a job of
// 1,000 workers each pass looks at all of them, so a pass per pod event would be quadratic. Callers: reconcilers.
// Thread-safe.
#pragma once

#include <map>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/kube/resource.h"

namespace paceline::operator_ {

class Pacer {
 public:
  Pacer(const Clock& clock, Duration min_interval) : clock_(clock), min_interval_(min_interval) {}

  // Zero when the object may be looked at now, which then counts as looked at; else how long to wait. The first look
  // after a pause never waits. Does not block.
  Duration WaitBefore(const kube::ObjectKey& key) EXCLUDES(mutex_);
  // For an object that is gone.
  void Forget(const kube::ObjectKey& key) EXCLUDES(mutex_);

 private:
  const Clock& clock_;
  const Duration min_interval_;
  Mutex mutex_;
  std::map<kube::ObjectKey, TimePoint> looked_at_ GUARDED_BY(mutex_);
};

}  // namespace paceline::operator_
