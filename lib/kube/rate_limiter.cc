#include "lib/kube/rate_limiter.h"

#include <algorithm>
#include <cmath>

#include "lib/base/check.h"

namespace paceline::kube {

TokenBucket::TokenBucket(double burst, Duration refill_period, TimePoint now)
    : burst_(burst), refill_period_(refill_period), tokens_(burst), updated_(now) {
  CHECK(burst >= 1 && refill_period > Duration::zero());
}

void TokenBucket::Refill(TimePoint now) {
  if (now <= updated_) return;
  const double gained = ToSeconds(now - updated_) / ToSeconds(refill_period_);
  tokens_ = std::min(burst_, tokens_ + gained);
  updated_ = now;
}

bool TokenBucket::TryTake(TimePoint now) {
  Refill(now);
  // Refilling adds fractions: a token is there when it is there up to rounding.
  constexpr double kAlmostOne = 1 - 1e-9;
  if (tokens_ < kAlmostOne) return false;
  tokens_ -= 1;
  return true;
}

Duration TokenBucket::Reserve(TimePoint now) {
  Refill(now);
  tokens_ -= 1;
  if (tokens_ >= 0) return Duration::zero();
  return Duration(std::llround(-tokens_ * static_cast<double>(refill_period_.count())));
}

Duration KeyBackoff::Next(const ObjectKey& key) {
  const int failures = failures_[key]++;
  // Doubling step by step cannot overflow, as a shift by a large count would.
  Duration delay = initial_;
  for (int i = 0; i < failures && delay < max_; ++i) delay *= 2;
  return std::min(delay, max_);
}

int KeyBackoff::Failures(const ObjectKey& key) const {
  auto it = failures_.find(key);
  return it == failures_.end() ? 0 : it->second;
}

}  // namespace paceline::kube
