// Every family of metrics that the plugin shows, in one place, so that a page about them can be written without one.
#pragma once

#include "lib/base/metrics.h"

namespace paceline::snapshotter {

struct PluginMetrics {
  // Makes the families; `registry` must outlive this.
  explicit PluginMetrics(MetricsRegistry& registry);

  MetricFamily<Histogram>& call_seconds;    // method, code
  MetricFamily<Counter>& fall_backs;        // reason
  MetricFamily<Counter>& layers;            // mode
  MetricFamily<Counter>& hot_sets;          // result
  MetricFamily<Counter>& bytes;             // source
  MetricFamily<Counter>& chunk_reads;       // result
  MetricFamily<Counter>& reads;             // result
  MetricFamily<Counter>& peer_requests;     // result
  MetricFamily<Counter>& peer_answers;      // result
  MetricFamily<Gauge>& peers;               // state
  MetricFamily<Counter>& peer_given_bytes;  // no labels, as those below
  MetricFamily<Gauge>& sharing;
  MetricFamily<Counter>& read_bytes;
  MetricFamily<Counter>& prefetched_bytes;
  MetricFamily<Counter>& origin_requests;
  MetricFamily<Counter>& damaged_chunks;
  MetricFamily<Gauge>& open_images;
  MetricFamily<Gauge>& cache_bytes;
};

}  // namespace paceline::snapshotter
