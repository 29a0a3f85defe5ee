// The two limiters of client-go's work queue as plain values: a token bucket and a per-key exponential back-off. Used
// by WorkQueue (retries) and EventRecorder (spam filter), which hold their own lock: nothing here is thread-safe.
#pragma once

#include <cstddef>
#include <map>

#include "lib/base/clock.h"
#include "lib/kube/resource.h"

namespace paceline::kube {

// `burst` tokens at the start, one more every `refill_period`, never more than `burst`.
class TokenBucket {
 public:
  // `burst` >= 1, `refill_period` > 0.
  TokenBucket(double burst, Duration refill_period, TimePoint now);

  // Takes a token when there is one; false and unchanged when there is none.
  bool TryTake(TimePoint now);
  // Takes a token that may not exist yet and returns how long to wait for it: zero, or the place in the line.
  Duration Reserve(TimePoint now);

 private:
  void Refill(TimePoint now);

  double burst_;
  Duration refill_period_;
  double tokens_;  // negative while reservations are outstanding
  TimePoint updated_;
};

// initial * 2^failures for each key, up to `max`.
class KeyBackoff {
 public:
  KeyBackoff(Duration initial, Duration max) : initial_(initial), max_(max) {}

  // The wait before the next try of `key`; counts one more failure.
  Duration Next(const ObjectKey& key);
  // Failures since the last Forget.
  int Failures(const ObjectKey& key) const;
  void Forget(const ObjectKey& key) { failures_.erase(key); }
  size_t size() const { return failures_.size(); }

 private:
  Duration initial_;
  Duration max_;
  std::map<ObjectKey, int> failures_;
};

}  // namespace paceline::kube
