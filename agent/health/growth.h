// How much counters have grown lately. Used by the watchers of devices, each its own, by one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "lib/base/clock.h"

namespace paceline::agent {

class Growth {
 public:
  explicit Growth(Duration window) : window_(window) {}

  // By how much the counter `name` has grown within the window, or since it was first seen. One that is lower than
  // before has begun anew.
  uint64_t Of(const std::string& name, uint64_t value, TimePoint now) {
    std::deque<Sample>& samples = seen_[name];
    if (!samples.empty() && value < samples.back().value) samples.clear();
    samples.push_back({now, value});
    while (samples.size() > 1 && samples[1].at + window_ <= now) samples.pop_front();
    return value - samples.front().value;
  }
  // The counter is not there any more.
  void Forget(const std::string& name) { seen_.erase(name); }

 private:
  struct Sample {
    TimePoint at;
    uint64_t value = 0;
  };

  const Duration window_;
  std::map<std::string, std::deque<Sample>> seen_;  // within the window, and the one before
};

}  // namespace paceline::agent
