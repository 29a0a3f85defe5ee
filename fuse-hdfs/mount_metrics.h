// The metrics of one mount, as its control socket gives them out in Prometheus' format. Made by run.cc. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/metrics.h"

namespace paceline::fuse_hdfs {

// What a mount has done so far and holds now.
struct MountTotals {
  uint64_t read_bytes = 0, written_bytes = 0, commits = 0, failed_commits = 0;
  uint64_t prefetched_bytes = 0, prefetched_files_opened = 0;
  uint64_t cache_hits = 0, cache_misses = 0;
  uint64_t open_handles = 0, unsent_bytes = 0, known_inodes = 0, cached_paths = 0;
};

class MountMetrics {
 public:
  // `totals` is called at each Render, from any thread, and must not block.
  explicit MountMetrics(std::function<MountTotals()> totals);

  // One request of the kernel that was answered; `error` is 0 or an errno.
  void Observe(std::string_view request, Duration took, int error);

  std::string Render() { return registry_->Render(); }
  std::vector<MetricsRegistry::Description> Describe() const { return registry_->Describe(); }

 private:
  const std::unique_ptr<MetricsRegistry> registry_;
  MetricFamily<Counter>& requests_;
  MetricFamily<Histogram>& seconds_;
};

}  // namespace paceline::fuse_hdfs
