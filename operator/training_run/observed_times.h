// Remembers when our watches showed a change first, because Kubernetes writes most times in whole seconds only. Fed by
// the cache handlers of every replica, so that a new leader has them too. Thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/kube/cache.h"
#include "operator/training_run/worker_facts.h"

namespace paceline::operator_ {

class ObservedTimesTracker {
 public:
  // `clock` must outlive the tracker.
  explicit ObservedTimesTracker(const Clock& clock) : clock_(clock) {}

  // From the pod cache's handler. Forgets a pod when it is deleted.
  void SeePod(const kube::CacheChange<kube::PodView>& change) EXCLUDES(mutex_);
  // From the job caches' handlers.
  void SeeJob(const kube::CacheChange<kube::ObjectView>& change) EXCLUDES(mutex_);

  // Empty times for what is not known.
  ObservedTimes OfPod(std::string_view uid) const EXCLUDES(mutex_);
  std::optional<WallTime> JobCreated(std::string_view uid) const EXCLUDES(mutex_);

 private:
  const Clock& clock_;
  mutable Mutex mutex_;
  std::map<std::string, ObservedTimes, std::less<>> pods_ GUARDED_BY(mutex_);
  std::map<std::string, WallTime, std::less<>> jobs_ GUARDED_BY(mutex_);
};

}  // namespace paceline::operator_
