// How long operations usually take, per communicator, function and size class; and what the triggers make of it.
//
// Durations are kept as counts in buckets a factor of 2^(1/4) apart, so a key costs some hundred bytes and a percentile
// is right to 19 %. The agent's collector owns one per run. Not thread-safe.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "lib/base/clock.h"

namespace paceline::analysis {

// Power of two that is not above `bytes`: 0 for 0 and 1, 20 for 1 to 2 MiB.
int SizeClass(uint64_t bytes);
// Bytes of an element of one of NCCL's types; 1 where the name is not known.
uint64_t DatatypeBytes(const std::string& datatype);

struct OperationKey {
  uint64_t comm = 0;
  std::string func;
  int size_class = 0;
  auto operator<=>(const OperationKey&) const = default;
};

class DurationCounts {
 public:
  void Add(Duration duration);
  void Merge(const DurationCounts& other);
  uint64_t count() const { return count_; }
  // The duration below which `share` of those added lie; nothing before the first.
  std::optional<Duration> Percentile(double share) const;
  // Halves all counts, so that what is usual follows what is.
  void Age();

 private:
  static constexpr int kBuckets = 160;  // from 1 us to 12 days
  std::array<uint32_t, kBuckets> counts_{};
  uint64_t count_ = 0;
};

class UsualDurations {
 public:
  // At most `max_keys` keys; further ones are not kept.
  explicit UsualDurations(size_t max_keys = 4096) : max_keys_(max_keys) {}

  void Add(const OperationKey& key, Duration duration);
  // All that `counts` holds.
  void Merge(const OperationKey& key, const DurationCounts& counts);
  // Median, once there are `least` of them.
  std::optional<Duration> Median(const OperationKey& key, uint64_t least = 5) const;
  std::optional<Duration> Percentile(const OperationKey& key, double share) const;
  size_t size() const { return counts_.size(); }
  const std::map<OperationKey, DurationCounts>& all() const { return counts_; }

 private:
  DurationCounts* Find(const OperationKey& key);

  size_t max_keys_;
  std::map<OperationKey, DurationCounts> counts_;
};

struct StallOptions {
  Duration floor = std::chrono::seconds(3);  // nothing shorter is a stall
  double times_usual = 10;
  Duration ceiling = std::chrono::seconds(8);  // without change for this long is one, however long it usually takes
};

// Whether an operation that has stood still for `still` has stalled: longer than `times_usual` of its median, at least
// the floor; or longer than the ceiling. The first operations of a run, of which nothing is known, have the ceiling.
bool HasStalled(Duration still, std::optional<Duration> usual, const StallOptions& options);

// Whether the operations of a window are slow against what was usual before: twice the median, of at least 5.
bool IsSlow(const DurationCounts& window, std::optional<Duration> usual, double factor = 2.0);

}  // namespace paceline::analysis
