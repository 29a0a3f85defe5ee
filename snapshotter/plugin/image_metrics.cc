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
  explicit FollowedCounters(PluginMetrics& metrics) : metrics_(metrics) {}

  void Follow(const blocks::ImageStats& now) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    Raise(metrics_.bytes.With({"memory"}), now.memory_bytes);
    Raise(metrics_.bytes.With({"disk"}), now.disk_bytes);
    Raise(metrics_.bytes.With({"peer"}), now.peer_bytes);
    Raise(metrics_.bytes.With({"origin"}), now.origin_bytes);
    Raise(metrics_.chunk_reads.With({"hit"}), now.chunk_hits);
    Raise(metrics_.chunk_reads.With({"miss"}), now.chunk_misses);
    Raise(metrics_.reads.With({"ok"}), now.reads - std::min(now.reads, now.failed_reads));
    Raise(metrics_.reads.With({"failed"}), now.failed_reads);
    Raise(metrics_.read_bytes.With({}), now.read_bytes);
    Raise(metrics_.prefetched_bytes.With({}), now.prefetched_bytes);
    Raise(metrics_.origin_requests.With({}), now.origin_requests);
    Raise(metrics_.damaged_chunks.With({}), now.damaged_chunks);
  }

 private:
  static void Raise(Counter& counter, uint64_t to) { counter.Add(static_cast<double>(to) - counter.Value()); }

  Mutex mutex_;
  PluginMetrics& metrics_;
};

constexpr int kStatusVersion = 1;

Json DescribeOutcome(const ImageOutcome& outcome) {
  Json json = {{"name", outcome.name},
               {"manifest", outcome.manifest},
               {"mode", outcome.converted ? "Lazy" : "Pulled"},
               {"askedAt", FormatRfc3339Micro(outcome.asked_at)}};
  if (outcome.converted) json["converted"] = outcome.converted->ToString();
  if (outcome.ready_at) json["readyAt"] = FormatRfc3339Micro(*outcome.ready_at);
  if (!outcome.converted) {
    json["reason"] = outcome.reason;
    json["message"] = outcome.message;
  }
  return json;
}

Json DescribeHotSet(const HotSetFacts& facts) {
  Json json = {{"state", HotSetPhaseText(facts.phase)}};
  if (!facts.digest.empty()) {
    json["chunks"] = facts.chunks;
    json["bytes"] = facts.bytes;
    json["digest"] = facts.digest;
  }
  return json;
}

}  // namespace

void FollowImages(MetricsRegistry& registry, PluginMetrics& metrics, const ImageTable& images,
                  const blocks::ChunkCache& cache) {
  const auto counters = std::make_shared<FollowedCounters>(metrics);
  registry.AddRefresher([counters, &metrics, &images, &cache] {
    counters->Follow(images.Totals());
    metrics.open_images.With({}).Set(static_cast<double>(images.Opened().size()));
    metrics.cache_bytes.With({}).Set(static_cast<double>(cache.stats().used_bytes));
  });
}

std::string DescribeImages(const ImageTable& images, const ImageOutcomes& outcomes, const HotSetRecorder& hot_sets,
                           Json peers) {
  Json asked = Json::array();
  for (const ImageOutcome& outcome : outcomes.All()) asked.push_back(DescribeOutcome(outcome));
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
    const HotSetFacts facts = hot_sets.FactsOf(image->digest);
    if (facts.phase != HotSetPhase::kUnknown) list.back()["hotSet"] = DescribeHotSet(facts);
  }
  Json status = {{"version", kStatusVersion}, {"asked", std::move(asked)}, {"images", std::move(list)}};
  if (!peers.is_null()) status["peers"] = std::move(peers);
  return DumpJson(status) + "\n";
}

}  // namespace paceline::snapshotter
