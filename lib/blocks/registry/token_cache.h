// Registry tokens, fetched once and renewed in time. Many threads ask for the same token at the same moment (every
// chunk of an image does); one of them fetches, the others wait or go on with the old one while it is still good.
//
// Callers: Authorizer. Thread-safe. Tokens live in memory only.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "lib/base/backoff.h"
#include "lib/base/mutex.h"
#include "lib/blocks/registry/challenge.h"

namespace paceline::blocks {

// When a token of `lifetime` is renewed, counted from its arrival: 20 s before its end or, for short ones, at three
// quarters, and up to a tenth of its life earlier so that many nodes do not renew together. `random` in [0, 1).
Duration RenewAfter(Duration lifetime, double random);

class TokenCache {
 public:
  using Fetch = std::function<Result<Token>()>;

  // `clock` is borrowed.
  TokenCache(const Clock& clock, RandomSource random);

  // The token for `key`, which must tell service, scope and credential apart. Calls `fetch` on this thread, without a
  // lock, when there is none, when it is to be renewed, or when the kept one equals `rejected` (what a 401 came back
  // for; "" for none). A failed renewal of a token that is still good is no failure; any other is that of all threads
  // which waited for it. Blocks for `fetch`, or for that of another thread until `deadline` or `stop`.
  Result<std::string> Get(const std::string& key, const std::string& rejected, const Fetch& fetch, Deadline deadline,
                          std::stop_token stop);

 private:
  struct Slot {
    std::string value;
    TimePoint renew_at, expires_at;
    bool is_fetching = false;
    uint64_t fetches_ended = 0;
    Status last_failure;  // of the fetch that ended last; ok when it brought a token
  };

  // What the asking thread has to do.
  enum class Turn { kUseKept, kFetch, kWait };
  Turn NextTurn(const Slot& slot, const std::string& rejected) const;
  void DropExpired() REQUIRES(mutex_);

  const Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  RandomSource random_ GUARDED_BY(mutex_);
  std::map<std::string, Slot> slots_ GUARDED_BY(mutex_);
};

}  // namespace paceline::blocks
