#include "lib/blocks/registry/token_cache.h"

#include <algorithm>

namespace paceline::blocks {
namespace {

constexpr std::chrono::seconds kEarly{20};
// After a renewal that failed while the old token is still good.
constexpr std::chrono::seconds kPauseAfterFailure{5};
constexpr size_t kManySlots = 1024;

}  // namespace

Duration RenewAfter(Duration lifetime, double random) {
  const Duration early = std::min<Duration>(kEarly, lifetime / 4);
  const auto jitter = static_cast<int64_t>(static_cast<double>(lifetime.count()) * 0.1 * random);
  return std::max(Duration::zero(), lifetime - early - Duration(jitter));
}

TokenCache::TokenCache(const Clock& clock, RandomSource random) : clock_(clock), random_(std::move(random)) {}

TokenCache::Turn TokenCache::NextTurn(const Slot& slot, const std::string& rejected) const {
  const TimePoint now = clock_.Now();
  const bool is_good = !slot.value.empty() && slot.value != rejected && now < slot.expires_at;
  if (is_good && (now < slot.renew_at || slot.is_fetching)) return Turn::kUseKept;
  return slot.is_fetching ? Turn::kWait : Turn::kFetch;
}

void TokenCache::DropExpired() {
  if (slots_.size() < kManySlots) return;
  const TimePoint now = clock_.Now();
  std::erase_if(slots_, [now](const auto& slot) { return !slot.second.is_fetching && slot.second.expires_at <= now; });
}

Result<std::string> TokenCache::Get(const std::string& key, const std::string& rejected, const Fetch& fetch,
                                    Deadline deadline, std::stop_token stop) {
  {
    MutexLock lock(mutex_);
    DropExpired();
    const uint64_t ended_before = slots_[key].fetches_ended;
    while (true) {
      const Turn turn = NextTurn(slots_[key], rejected);
      if (turn == Turn::kUseKept) return slots_[key].value;
      if (slots_[key].fetches_ended != ended_before && !slots_[key].last_failure.ok()) return slots_[key].last_failure;
      if (turn == Turn::kFetch) break;
      if (stop.stop_requested()) return CancelledError("stopped while waiting for a token");
      if (deadline.Expired(clock_)) return DeadlineExceededError("no token in time");
      changed_.WaitUntil(lock, clock_, deadline.when(), stop);
    }
    slots_[key].is_fetching = true;
  }
  Result<Token> fetched = fetch();

  MutexLock lock(mutex_);
  Slot& slot = slots_[key];
  slot.is_fetching = false;
  ++slot.fetches_ended;
  slot.last_failure = fetched.status();
  changed_.NotifyAll();
  const TimePoint now = clock_.Now();
  if (fetched.ok()) {
    slot.value = fetched->value;
    slot.expires_at = now + fetched->lifetime;
    slot.renew_at = now + RenewAfter(fetched->lifetime, random_());
    return slot.value;
  }
  if (!slot.value.empty() && slot.value != rejected && now < slot.expires_at) {
    slot.renew_at = now + kPauseAfterFailure;
    return slot.value;
  }
  return fetched.status();
}

}  // namespace paceline::blocks
