#include "operator/pacer.h"

namespace paceline::operator_ {

Duration Pacer::WaitBefore(const kube::ObjectKey& key) {
  const TimePoint now = clock_.Now();
  MutexLock lock(mutex_);
  const auto [found, is_new] = looked_at_.try_emplace(key, now);
  if (is_new) return Duration::zero();
  if (now - found->second < min_interval_) return min_interval_ - (now - found->second);
  found->second = now;
  return Duration::zero();
}

void Pacer::Forget(const kube::ObjectKey& key) {
  MutexLock lock(mutex_);
  looked_at_.erase(key);
}

}  // namespace paceline::operator_
