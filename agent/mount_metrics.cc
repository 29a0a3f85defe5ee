#include "agent/mount_metrics.h"

#include <memory>
#include <set>

#include "lib/base/mutex.h"

namespace paceline::agent {
namespace {

const std::vector<std::string> kLabels = {"namespace", "pod", "volume"};

// Scrapes may overlap, and series of pods that are gone must go too: it remembers which it made. Thread-safe.
class MountSeries {
 public:
  MountSeries(MetricsRegistry& metrics, std::function<std::vector<PodReport>()> pods)
      : pods_(std::move(pods)),
        mounted_(metrics.GaugeFamily(
            {"paceline_volume_mounted",
             "1 while the mount process of a volume serves it, 0 while it does not; absent while nobody can say.",
             kLabels})),
        read_(metrics.CounterFamily(
            {"paceline_volume_read_bytes_total", "Bytes that a pod read through a mounted volume.", kLabels})),
        written_(metrics.CounterFamily(
            {"paceline_volume_written_bytes_total", "Bytes that a pod wrote through a mounted volume.", kLabels})),
        restarts_(metrics.CounterFamily({"paceline_volume_mount_restarts_total",
                                         "Times that a volume's mount process was started again.", kLabels})) {}

  void Refresh() EXCLUDES(mutex_) {
    const std::vector<PodReport> pods = pods_();
    MutexLock lock(mutex_);
    std::set<LabelValues> present;
    for (const PodReport& pod : pods) {
      if (pod.ended_at) continue;
      for (const MountReport& mount : pod.mounts) {
        LabelValues labels = {pod.pod.ns, pod.pod.name, mount.volume};
        Show(labels, mount.figures);
        present.insert(std::move(labels));
      }
    }
    for (const LabelValues& labels : shown_) {
      if (present.count(labels) > 0) continue;
      mounted_.Remove(labels);
      for (MetricFamily<Counter>* family : {&read_, &written_, &restarts_}) family->Remove(labels);
    }
    shown_ = std::move(present);
  }

 private:
  void Show(const LabelValues& labels, const MountFigures& figures) {
    if (figures.state == "Unknown") {
      mounted_.Remove(labels);
    } else {
      mounted_.With(labels).Set(figures.state == "Mounted" ? 1 : 0);
    }
    const auto raise = [&labels](MetricFamily<Counter>& family, double to) {
      Counter& counter = family.With(labels);
      counter.Add(to - counter.Value());
    };
    raise(read_, static_cast<double>(figures.read_bytes));
    raise(written_, static_cast<double>(figures.written_bytes));
    raise(restarts_, figures.restarts);
  }

  const std::function<std::vector<PodReport>()> pods_;
  MetricFamily<Gauge>& mounted_;
  MetricFamily<Counter>& read_;
  MetricFamily<Counter>& written_;
  MetricFamily<Counter>& restarts_;
  Mutex mutex_;
  std::set<LabelValues> shown_ GUARDED_BY(mutex_);
};

}  // namespace

void AddMountMetrics(MetricsRegistry& metrics, std::function<std::vector<PodReport>()> pods) {
  auto series = std::make_shared<MountSeries>(metrics, std::move(pods));
  metrics.AddRefresher([series] { series->Refresh(); });
}

}  // namespace paceline::agent
