#include "lib/base/metrics.h"

#include <prometheus/check_names.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <type_traits>

#include "lib/base/check.h"
#include "lib/base/mutex.h"
#include "lib/base/process_stats.h"
#include "lib/base/utf8.h"

namespace paceline {

namespace {

constexpr char kOverflowValue[] = "other";
constexpr char kDroppedName[] = "paceline_metrics_dropped_series_total";

// A wrong metric is a bug of the caller that shows at the first start.
[[noreturn]] void BadMetric(const std::string& name, const std::string& why) {
  std::fprintf(stderr, "metric \"%s\": %s\n", name.c_str(), why.c_str());
  std::abort();
}

class CounterSeries final : public Counter {
 public:
  using Library = prometheus::Counter;
  explicit CounterSeries(Library& counter) : counter_(counter) {}
  void Add(double amount) override { counter_.Increment(amount); }
  double Value() const override { return counter_.Value(); }
  Library& library() { return counter_; }

 private:
  Library& counter_;
};

class GaugeSeries final : public Gauge {
 public:
  using Library = prometheus::Gauge;
  explicit GaugeSeries(Library& gauge) : gauge_(gauge) {}
  void Set(double value) override { gauge_.Set(value); }
  void Add(double amount) override { gauge_.Increment(amount); }
  double Value() const override { return gauge_.Value(); }
  Library& library() { return gauge_; }

 private:
  Library& gauge_;
};

class HistogramSeries final : public Histogram {
 public:
  using Library = prometheus::Histogram;
  explicit HistogramSeries(Library& histogram) : histogram_(histogram) {}
  void Observe(double value) override { histogram_.Observe(value); }
  Library& library() { return histogram_; }

 private:
  Library& histogram_;
};

// What the registry needs of a family whatever its metric.
class AnyFamily {
 public:
  virtual ~AnyFamily() = default;
  virtual const char* type() const = 0;
  virtual const MetricOptions& options() const = 0;
  virtual std::vector<prometheus::MetricFamily> Collect() const = 0;
};

template <typename Metric, typename Series>
class Family final : public MetricFamily<Metric>, public AnyFamily {
 public:
  using Library = typename Series::Library;

  // `dropped` counts, by metric, the lookups that ended in the overflow series; null for that very family.
  Family(const char* type, MetricOptions options, std::vector<double> buckets, MetricFamily<Counter>* dropped)
      : type_(type),
        options_(std::move(options)),
        buckets_(std::move(buckets)),
        dropped_(dropped),
        library_(options_.name, options_.help, {}) {}

  Metric& With(const LabelValues& values) override {
    CHECK(values.size() == options_.label_names.size());
    bool is_overflow = false;
    Series* series = nullptr;
    {
      MutexLock lock(mutex_);
      const auto found = series_.find(values);
      if (found != series_.end()) {
        series = found->second.get();
      } else if (series_.size() < options_.max_series) {
        series = (series_[values] = Make(values)).get();
      } else {
        is_overflow = true;
        if (overflow_ == nullptr) overflow_ = Make(LabelValues(values.size(), kOverflowValue));
        series = overflow_.get();
      }
    }
    if (is_overflow && dropped_ != nullptr) dropped_->With({options_.name}).Add(1);
    return *series;
  }

  void Remove(const LabelValues& values) override {
    MutexLock lock(mutex_);
    const auto found = series_.find(values);
    if (found == series_.end()) return;
    const Library* removed = &found->second->library();
    // Two label sets share one library object when they differ only in bytes that are not UTF-8, or when one of them is
    // spelled like the overflow series.
    const bool is_shared = (overflow_ != nullptr && &overflow_->library() == removed) ||
                           std::count_if(series_.begin(), series_.end(), [removed](const auto& entry) {
                             return &entry.second->library() == removed;
                           }) > 1;
    if (!is_shared) library_.Remove(&found->second->library());
    series_.erase(found);
  }

  const char* type() const override { return type_; }
  const MetricOptions& options() const override { return options_; }
  const std::vector<double>& buckets() const { return buckets_; }
  std::vector<prometheus::MetricFamily> Collect() const override { return library_.Collect(); }

 private:
  std::unique_ptr<Series> Make(const LabelValues& values) REQUIRES(mutex_) {
    prometheus::Labels labels;
    for (size_t i = 0; i < values.size(); ++i) labels[options_.label_names[i]] = ReplaceInvalidUtf8(values[i]);
    if constexpr (std::is_same_v<Library, prometheus::Histogram>) {
      return std::make_unique<Series>(library_.Add(labels, buckets_));
    } else {
      return std::make_unique<Series>(library_.Add(labels));
    }
  }

  const char* const type_;
  const MetricOptions options_;
  const std::vector<double> buckets_;
  MetricFamily<Counter>* const dropped_;
  prometheus::Family<Library> library_;
  mutable Mutex mutex_;
  std::map<LabelValues, std::unique_ptr<Series>> series_ GUARDED_BY(mutex_);
  std::unique_ptr<Series> overflow_ GUARDED_BY(mutex_);
};

void CheckOptions(const MetricOptions& options, const std::vector<double>& buckets) {
  if (!prometheus::CheckMetricName(options.name)) BadMetric(options.name, "not a valid Prometheus metric name");
  if (options.max_series == 0) BadMetric(options.name, "max_series must be at least 1");
  std::vector<std::string> names = options.label_names;
  std::sort(names.begin(), names.end());
  if (std::adjacent_find(names.begin(), names.end()) != names.end()) BadMetric(options.name, "a label name twice");
  for (const std::string& label : names) {
    if (!prometheus::CheckLabelName(label) || label == "le" || label == "quantile") {
      BadMetric(options.name, "\"" + label + "\" cannot be a label name");
    }
  }
  if (std::adjacent_find(buckets.begin(), buckets.end(), std::greater_equal<>()) != buckets.end()) {
    BadMetric(options.name, "bucket bounds must rise");
  }
}

// The text format has no room for line ends in a HELP line, and the library writes the text as it is.
std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::replace(text.begin(), text.end(), '\\', '/');
  return ReplaceInvalidUtf8(text);
}

class Registry final : public MetricsRegistry {
 public:
  Registry() {
    dropped_ = &Find<Counter, CounterSeries>(
        "counter",
        {kDroppedName, "Lookups that ended in a metric's overflow series because the metric is full.", {"metric"}}, {},
        nullptr);
  }

  MetricFamily<Counter>& CounterFamily(const MetricOptions& options) override {
    return Find<Counter, CounterSeries>("counter", options, {}, dropped_);
  }

  MetricFamily<Gauge>& GaugeFamily(const MetricOptions& options) override {
    return Find<Gauge, GaugeSeries>("gauge", options, {}, dropped_);
  }

  MetricFamily<Histogram>& HistogramFamily(const MetricOptions& options, std::vector<double> buckets) override {
    return Find<Histogram, HistogramSeries>("histogram", options, std::move(buckets), dropped_);
  }

  void AddRefresher(std::function<void()> refresher) override {
    MutexLock lock(mutex_);
    refreshers_.push_back(std::move(refresher));
  }

  void AddProcessMetrics(std::string_view version, std::string_view revision) override;

  std::string Render() override {
    std::vector<std::function<void()>> refreshers;
    {
      MutexLock lock(mutex_);
      refreshers = refreshers_;
    }
    for (const auto& refresher : refreshers) refresher();
    std::vector<prometheus::MetricFamily> page;
    {
      MutexLock lock(mutex_);  // no more than copying numbers happens under it
      for (const auto& [name, family] : families_) {
        for (prometheus::MetricFamily& collected : family->Collect()) page.push_back(std::move(collected));
      }
    }
    for (prometheus::MetricFamily& family : page) {
      std::sort(family.metric.begin(), family.metric.end(),
                [](const auto& a, const auto& b) { return a.label < b.label; });
    }
    std::ostringstream out;
    prometheus::TextSerializer().Serialize(out, page);
    return out.str();
  }

  std::vector<Description> Describe() const override {
    std::vector<Description> all;
    MutexLock lock(mutex_);
    for (const auto& [name, family] : families_) {
      all.push_back({name, family->type(), family->options().help, family->options().label_names});
    }
    return all;
  }

 private:
  template <typename Metric, typename Series>
  Family<Metric, Series>& Find(const char* type, MetricOptions options, std::vector<double> buckets,
                               MetricFamily<Counter>* dropped) {
    CheckOptions(options, buckets);
    options.help = OneLine(std::move(options.help));
    MutexLock lock(mutex_);
    std::unique_ptr<AnyFamily>& slot = families_[options.name];
    if (slot == nullptr) {
      auto made = std::make_unique<Family<Metric, Series>>(type, std::move(options), std::move(buckets), dropped);
      Family<Metric, Series>& family = *made;
      slot = std::move(made);
      return family;
    }
    auto* family = dynamic_cast<Family<Metric, Series>*>(slot.get());
    if (family == nullptr) BadMetric(options.name, std::string("is already a ") + slot->type());
    if (family->options().label_names != options.label_names) BadMetric(options.name, "has other labels already");
    if (family->buckets() != buckets) BadMetric(options.name, "has other buckets already");
    return *family;
  }

  mutable Mutex mutex_;
  std::map<std::string, std::unique_ptr<AnyFamily>> families_ GUARDED_BY(mutex_);
  std::vector<std::function<void()>> refreshers_ GUARDED_BY(mutex_);
  MetricFamily<Counter>* dropped_ = nullptr;  // lives in families_
};

// The names that Prometheus' own client libraries use.
void Registry::AddProcessMetrics(std::string_view version, std::string_view revision) {
  GaugeFamily({"paceline_build_info", "Always 1; the labels say what is running.", {"version", "revision"}})
      .With({std::string(version), std::string(revision)})
      .Set(1);
  Counter& cpu = CounterFamily({"process_cpu_seconds_total", "User and system CPU time of the process.", {}}).With({});
  const auto gauge = [this](const char* name, const char* help) { return &GaugeFamily({name, help, {}}).With({}); };
  Gauge* start = gauge("process_start_time_seconds", "When the process started, in seconds since the Unix epoch.");
  Gauge* resident = gauge("process_resident_memory_bytes", "Physical memory in use by the process.");
  Gauge* virtual_memory = gauge("process_virtual_memory_bytes", "Address space of the process.");
  Gauge* threads = gauge("process_threads", "Threads of the process.");
  Gauge* open = gauge("process_open_fds", "Open file descriptors.");
  Gauge* limit = gauge("process_max_fds", "Limit on open file descriptors.");
  auto cpu_mutex = std::make_shared<Mutex>();  // two renders at once must not both add the same difference
  AddRefresher([=, &cpu] {
    const Result<ProcessStats> stats = ReadOwnProcessStats("/proc");
    if (!stats.ok()) return;  // the last values stay; without /proc there is nothing better to show
    {
      MutexLock lock(*cpu_mutex);
      cpu.Add(std::max(0.0, stats->cpu_seconds - cpu.Value()));
    }
    start->Set(stats->start_time_seconds);
    resident->Set(static_cast<double>(stats->resident_bytes));
    virtual_memory->Set(static_cast<double>(stats->virtual_bytes));
    threads->Set(static_cast<double>(stats->threads));
    open->Set(static_cast<double>(stats->open_descriptors));
    limit->Set(static_cast<double>(stats->max_descriptors));
  });
}

}  // namespace

std::vector<double> ExponentialBuckets(double start, double factor, int count) {
  CHECK(start > 0 && factor > 1 && count > 0);
  std::vector<double> bounds;
  for (double bound = start; static_cast<int>(bounds.size()) < count; bound *= factor) bounds.push_back(bound);
  return bounds;
}

std::unique_ptr<MetricsRegistry> MetricsRegistry::Create() { return std::make_unique<Registry>(); }

}  // namespace paceline
