#include "snapshotter/plugin/image_metrics.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/base/mutex.h"

namespace paceline::snapshotter {
namespace {

// Counters of ours that follow counters of the engine, which only grow. Two scrapes at once must not add a step twice.
class FollowedCounters {
 public:
  explicit FollowedCounters(MetricsRegistry& metrics)
      : bytes_(metrics.CounterFamily({.name = "paceline_image_bytes_total",
                                      .help = "Bytes of lazy images by where they came from.",
                                      .label_names = {"source"}})),
        chunks_(metrics.CounterFamily({.name = "paceline_image_chunk_reads_total",
                                       .help = "Chunks that reads of lazy images needed: hit when they were here.",
                                       .label_names = {"result"}})),
        reads_(metrics.CounterFamily({.name = "paceline_image_reads_total",
                                      .help = "Reads of lazy images by the kernel.",
                                      .label_names = {"result"}})),
        read_bytes_(metrics.CounterFamily(
            {.name = "paceline_image_read_bytes_total", .help = "Bytes given to the kernel for lazy images."})),
        prefetched_(metrics.CounterFamily({.name = "paceline_image_prefetched_bytes_total",
                                           .help = "Bytes from the origin that no read waited for."})),
        requests_(metrics.CounterFamily(
            {.name = "paceline_image_origin_requests_total", .help = "Ranges that were asked of stores."})),
        damaged_(metrics.CounterFamily({.name = "paceline_image_damaged_chunks_total",
                                        .help = "Chunks that came with wrong bytes and were fetched again."})) {}

  void Follow(const blocks::ImageStats& now) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    Raise(bytes_.With({"memory"}), now.memory_bytes);
    Raise(bytes_.With({"disk"}), now.disk_bytes);
    Raise(bytes_.With({"peer"}), now.peer_bytes);
    Raise(bytes_.With({"origin"}), now.origin_bytes);
    Raise(chunks_.With({"hit"}), now.chunk_hits);
    Raise(chunks_.With({"miss"}), now.chunk_misses);
    Raise(reads_.With({"ok"}), now.reads - std::min(now.reads, now.failed_reads));
    Raise(reads_.With({"failed"}), now.failed_reads);
    Raise(read_bytes_.With({}), now.read_bytes);
    Raise(prefetched_.With({}), now.prefetched_bytes);
    Raise(requests_.With({}), now.origin_requests);
    Raise(damaged_.With({}), now.damaged_chunks);
  }

 private:
  static void Raise(Counter& counter, uint64_t to) { counter.Add(static_cast<double>(to) - counter.Value()); }

  Mutex mutex_;
  MetricFamily<Counter>&bytes_, &chunks_, &reads_, &read_bytes_, &prefetched_, &requests_, &damaged_;
};

}  // namespace

void AddImageMetrics(MetricsRegistry& metrics, const ImageTable& images, const blocks::ChunkCache& cache) {
  const auto counters = std::make_shared<FollowedCounters>(metrics);
  Gauge& open = metrics.GaugeFamily({.name = "paceline_images_open", .help = "Converted images in use."}).With({});
  Gauge& used =
      metrics.GaugeFamily({.name = "paceline_image_cache_bytes", .help = "Contents of chunks on this disk."}).With({});
  metrics.AddRefresher([counters, &open, &used, &images, &cache] {
    counters->Follow(images.Totals());
    open.Set(static_cast<double>(images.Opened().size()));
    used.Set(static_cast<double>(cache.stats().used_bytes));
  });
}

std::string DescribeImages(const ImageTable& images) {
  Json list = Json::array();
  for (const ImagePtr& image : images.Opened()) {
    const blocks::ImageStats stats = image->reader->stats();
    list.push_back({{"name", image->name},
                    {"digest", image->digest.ToString()},
                    {"subject", image->manifest.subject.digest.ToString()},
                    {"store", image->store},
                    {"layers", image->manifest.layers.size()},
                    {"reads", stats.reads},
                    {"readBytes", stats.read_bytes},
                    {"failedReads", stats.failed_reads},
                    {"chunkHits", stats.chunk_hits},
                    {"chunkMisses", stats.chunk_misses},
                    {"memoryBytes", stats.memory_bytes},
                    {"diskBytes", stats.disk_bytes},
                    {"peerBytes", stats.peer_bytes},
                    {"originBytes", stats.origin_bytes},
                    {"originRequests", stats.origin_requests},
                    {"prefetchedBytes", stats.prefetched_bytes},
                    {"damagedChunks", stats.damaged_chunks}});
  }
  return DumpJsonPretty({{"images", std::move(list)}}) + "\n";
}

}  // namespace paceline::snapshotter
