// When the reading with which a training program starts began and ended: from the first byte to the last one before the
// first pause of a minute. Later reads, as of an evaluation, are none of it. Thread-safe.
#pragma once

#include <atomic>
#include <optional>

#include "lib/base/clock.h"

namespace paceline::fuse_hdfs {

class StartRead {
 public:
  struct Span {
    WallTime first, last;
  };

  // Bytes were read at `now`. Never blocks.
  void Note(WallTime now) {
    const int64_t at_ns = now.time_since_epoch().count();
    int64_t none = 0;
    first_ns_.compare_exchange_strong(none, at_ns);
    int64_t last = last_ns_.load();
    // Once the pause was there `last` stays, so every later read is past it too.
    while (last < at_ns && (last == 0 || at_ns - last < kPause.count())) {
      if (last_ns_.compare_exchange_weak(last, at_ns)) return;
    }
  }

  // Empty before the first byte; the end moves on until the pause.
  std::optional<Span> span() const {
    const int64_t last = last_ns_.load();
    if (last == 0) return std::nullopt;
    return Span{WallTime(Duration(first_ns_.load())), WallTime(Duration(last))};
  }

 private:
  static constexpr Duration kPause = std::chrono::minutes(1);

  std::atomic<int64_t> first_ns_{0}, last_ns_{0};  // since 1970; 0: nothing was read
};

}  // namespace paceline::fuse_hdfs
