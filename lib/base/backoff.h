// How long to wait before the next try: exponential growth with full jitter, so that many clients that failed together
// do not come back together. One object per activity that retries; not thread-safe.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/clock.h"

namespace paceline {

struct BackoffOptions {
  Duration initial = std::chrono::milliseconds(100);  // the upper bound of the first wait
  Duration max = std::chrono::seconds(30);            // and of all later ones
  double factor = 2.0;
  // Every wait lies between this share of the bound and the bound: 0 is full jitter, 1 is none.
  double floor = 0.0;
};

// Gives numbers in [0, 1). Tests pass a fixed sequence.
using RandomSource = std::function<double()>;

// Seeded from the system's entropy. One for each Backoff: a copy repeats the numbers of its original.
RandomSource MakeRandomSource();

class Backoff {
 public:
  Backoff(const BackoffOptions& options, RandomSource random)
      : options_(options), random_(std::move(random)), bound_(options.initial) {
    CHECK(options.initial > Duration::zero() && options.max >= options.initial && options.factor >= 1.0);
    CHECK(options.floor >= 0.0 && options.floor <= 1.0);
  }

  // The wait before the next try. Each call counts as one more failure.
  Duration Next() {
    const double share = options_.floor + (1.0 - options_.floor) * random_();
    const Duration wait(static_cast<int64_t>(static_cast<double>(bound_.count()) * share));
    // Compared as doubles: the product may not fit a Duration.
    const double grown = static_cast<double>(bound_.count()) * options_.factor;
    bound_ = grown >= static_cast<double>(options_.max.count()) ? options_.max : Duration(static_cast<int64_t>(grown));
    ++failures_;
    return std::min(wait, options_.max);
  }

  // After a success.
  void Reset() {
    bound_ = options_.initial;
    failures_ = 0;
  }

  // Calls of Next since the start or the last Reset.
  int failures() const { return failures_; }

 private:
  BackoffOptions options_;
  RandomSource random_;
  Duration bound_;
  int failures_ = 0;
};

}  // namespace paceline
