// What the agent's /metrics says of dependency snapshots on its node: restores, installs by cause, recordings, and the
// bytes that mounted snapshots were read from. Counters begin anew with the agent.
//
// Fed by the volume type. Thread-safe.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "agent/csi/deps_fate.h"
#include "lib/base/metrics.h"
#include "lib/base/mutex.h"
#include "lib/deps/collector.h"

namespace paceline::agent {

class DepsMetrics {
 public:
  explicit DepsMetrics(MetricsRegistry& metrics);

  // A pod's first publish.
  void CountStart(const DepsFate& fate);
  // `seconds` and `new_bytes` (that the store did not have) of one that was published.
  void CountRecording(RecordingResult result, double seconds, uint64_t new_bytes);
  // A snapshot was put aside: kDamaged or kNotTrusted.
  void CountQuarantine(api::InstallCause cause);
  // What a collection of the store has removed.
  void CountCollection(const deps::CollectReport& report);
  // `stats`: what the mount of a volume answers (JSON, sums since its process began). Damaged ones change nothing.
  void SeeMount(const std::string& volume_id, std::string_view stats) EXCLUDES(mutex_);
  void ForgetMount(const std::string& volume_id) EXCLUDES(mutex_);

 private:
  static constexpr size_t kSources = 5;

  MetricFamily<Counter>& restores_;
  MetricFamily<Counter>& installs_;
  MetricFamily<Counter>& recordings_;
  MetricFamily<Counter>& recorded_bytes_;
  MetricFamily<Counter>& read_bytes_;
  MetricFamily<Counter>& quarantines_;
  MetricFamily<Counter>& collected_;
  MetricFamily<Counter>& collected_bytes_;
  MetricFamily<Histogram>& restore_seconds_;
  MetricFamily<Histogram>& recording_seconds_;
  Mutex mutex_;
  std::map<std::string, std::array<int64_t, kSources>> seen_ GUARDED_BY(mutex_);  // by volume
};

}  // namespace paceline::agent
