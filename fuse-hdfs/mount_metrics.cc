#include "fuse-hdfs/mount_metrics.h"

#include "lib/base/mutex.h"
#include "lib/base/version.h"

namespace paceline::fuse_hdfs {
namespace {

// Shows what a mount counts itself. Two renders may run at once: both add what is missing, one after the other.
class TotalsShown {
 public:
  TotalsShown(MetricsRegistry& registry, std::function<MountTotals()> totals) : totals_(std::move(totals)) {
    const auto counter = [&registry](const char* name, const char* help) {
      return &registry.CounterFamily({name, help, {}}).With({});
    };
    const auto gauge = [&registry](const char* name, const char* help) {
      return &registry.GaugeFamily({name, help, {}}).With({});
    };
    auto& lookups = registry.CounterFamily(
        {"paceline_mount_cache_lookups_total", "Look-ups in the attribute cache: hit or miss.", {"result"}});
    counters_ = {
        {counter("paceline_mount_read_bytes_total", "Bytes given to readers."), &MountTotals::read_bytes},
        {counter("paceline_mount_written_bytes_total", "Bytes taken from writers."), &MountTotals::written_bytes},
        {counter("paceline_mount_commits_total", "Files made visible."), &MountTotals::commits},
        {counter("paceline_mount_failed_commits_total", "Files that could not be made visible: their data is lost."),
         &MountTotals::failed_commits},
        {counter("paceline_mount_prefetched_bytes_total", "Bytes asked for before anybody opened their file."),
         &MountTotals::prefetched_bytes},
        {counter("paceline_mount_prefetched_files_opened_total", "Files that were loaded before they were opened."),
         &MountTotals::prefetched_files_opened},
        {&lookups.With({"hit"}), &MountTotals::cache_hits},
        {&lookups.With({"miss"}), &MountTotals::cache_misses}};
    gauges_ = {{gauge("paceline_mount_open_handles", "Open files."), &MountTotals::open_handles},
               {gauge("paceline_mount_unsent_bytes", "Bytes written and not yet sent."), &MountTotals::unsent_bytes},
               {gauge("paceline_mount_known_inodes", "Inodes that the kernel knows."), &MountTotals::known_inodes},
               {gauge("paceline_mount_cached_paths", "Paths in the attribute cache."), &MountTotals::cached_paths}};
  }

  void Refresh() EXCLUDES(mutex_) {
    const MountTotals now = totals_();
    MutexLock lock(mutex_);
    for (auto& [counter, member] : counters_) counter->Add(static_cast<double>(now.*member) - counter->Value());
    for (auto& [gauge, member] : gauges_) gauge->Set(static_cast<double>(now.*member));
  }

 private:
  using Member = uint64_t MountTotals::*;
  const std::function<MountTotals()> totals_;
  std::vector<std::pair<Gauge*, Member>> gauges_;
  std::vector<std::pair<Counter*, Member>> counters_;
  Mutex mutex_;
};

}  // namespace

MountMetrics::MountMetrics(std::function<MountTotals()> totals)
    : registry_(MetricsRegistry::Create()),
      requests_(registry_->CounterFamily(
          {"paceline_mount_requests_total", "Requests of the kernel, by outcome.", {"request", "result"}})),
      seconds_(registry_->HistogramFamily(
          {"paceline_mount_request_duration_seconds", "How long requests of the kernel took.", {"request"}},
          ExponentialBuckets(1e-5, 4, 12))) {
  registry_->AddProcessMetrics(Version(), Revision());
  auto shown = std::make_shared<TotalsShown>(*registry_, std::move(totals));
  registry_->AddRefresher([shown] { shown->Refresh(); });
}

void MountMetrics::Observe(std::string_view request, Duration took, int error) {
  requests_.With({std::string(request), error == 0 ? "ok" : "error"}).Add();
  seconds_.With({std::string(request)}).Observe(ToSeconds(took));
}

}  // namespace paceline::fuse_hdfs
