// Counters, gauges and histograms behind one small face, rendered in the Prometheus text format.
//
// A family is made once at start, with its label names; a series is looked up by label values, and the returned handle
// is kept by hot paths. A family holds at most `max_series` label sets: past that, new ones all fall into one series
// whose label values are "other" and the counter paceline_metrics_dropped_series_total grows, so a bad label can make a
// metric useless but never the process. Thread-safe; handles live as long as the registry unless the series is removed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

class Counter {
 public:
  virtual ~Counter() = default;
  virtual void Add(double amount = 1) = 0;  // negative amounts are dropped
  virtual double Value() const = 0;
};

class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void Set(double value) = 0;
  virtual void Add(double amount) = 0;  // may be negative
  virtual double Value() const = 0;
};

class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void Observe(double value) = 0;
};

using LabelValues = std::vector<std::string>;  // one per label name, in the family's order

template <typename Metric>
class MetricFamily {
 public:
  virtual ~MetricFamily() = default;
  // The series for these label values, made on first use; the overflow series when the family is full. The number of
  // values must be that of the label names; bytes that are not UTF-8 are shown as U+FFFD.
  virtual Metric& With(const LabelValues& values) = 0;
  // Forgets one series, as for a job that ended; its handle must no longer be used. Nothing happens if it is not there.
  virtual void Remove(const LabelValues& values) = 0;
};

struct MetricOptions {
  std::string name;  // e.g. "paceline_runs_total"; a bad name ends the process at start
  std::string help;
  std::vector<std::string> label_names;
  size_t max_series = 1000;
};

// Exponential bucket bounds: start, start*factor, ... (count of them).
std::vector<double> ExponentialBuckets(double start, double factor, int count);

class MetricsRegistry {
 public:
  static std::unique_ptr<MetricsRegistry> Create();
  virtual ~MetricsRegistry() = default;

  // Asking again for a name returns the same family; a different kind or other labels under it end the process.
  virtual MetricFamily<Counter>& CounterFamily(const MetricOptions& options) = 0;
  virtual MetricFamily<Gauge>& GaugeFamily(const MetricOptions& options) = 0;
  virtual MetricFamily<Histogram>& HistogramFamily(const MetricOptions& options, std::vector<double> buckets) = 0;

  // Runs before each Render, to refresh gauges that are read rather than counted. Must not block; two renders at once
  // run it twice at once.
  virtual void AddRefresher(std::function<void()> refresher) = 0;

  // paceline_build_info{version,revision} 1 and the process_* metrics (CPU, memory, descriptors, start time).
  virtual void AddProcessMetrics(std::string_view version, std::string_view revision) = 0;

  // The page that Prometheus scrapes (text format 0.0.4).
  virtual std::string Render() = 0;

  // Name, type, help and labels of every family, for docs/metrics.md.
  struct Description {
    std::string name, type, help;
    std::vector<std::string> label_names;
  };
  virtual std::vector<Description> Describe() const = 0;
};

}  // namespace paceline
