#include "snapshotter/plugin/plugin_metrics.h"

#include "lib/blocks/peers/chunk_giver.h"
#include "lib/blocks/peers/peer_choice.h"

namespace paceline::snapshotter {

PluginMetrics::PluginMetrics(MetricsRegistry& registry)
    : call_seconds(registry.HistogramFamily({.name = "paceline_snapshot_call_duration_seconds",
                                             .help = "Time that containerd waited for a call of the snapshot service.",
                                             .label_names = {"method", "code"}},
                                            ExponentialBuckets(0.0005, 2, 18))),
      fall_backs(registry.CounterFamily({.name = "paceline_image_fallbacks_total",
                                         .help = "Pulls of images that went the ordinary way, by reason.",
                                         .label_names = {"reason"}})),
      layers(registry.CounterFamily({.name = "paceline_image_layers_total",
                                     .help = "Layers that containerd was about to unpack, by what became of them.",
                                     .label_names = {"mode"}})),
      hot_sets(registry.CounterFamily({.name = "paceline_image_hot_sets_total",
                                       .help = "Recorded sets of first-read chunks, by what was done with them.",
                                       .label_names = {"result"}})),
      bytes(registry.CounterFamily({.name = "paceline_image_bytes_total",
                                    .help = "Bytes of lazy images by where they came from.",
                                    .label_names = {"source"}})),
      chunk_reads(registry.CounterFamily({.name = "paceline_image_chunk_reads_total",
                                          .help = "Chunks that reads of lazy images needed: hit when they were here.",
                                          .label_names = {"result"}})),
      reads(registry.CounterFamily({.name = "paceline_image_reads_total",
                                    .help = "Reads of lazy images by the kernel.",
                                    .label_names = {"result"}})),
      peer_requests(registry.CounterFamily(
          {.name = "paceline_image_peer_requests_total",
           .help = "Requests for chunks to other nodes, by what came of them; skipped: the origin is faster.",
           .label_names = {"result"}})),
      peer_answers(registry.CounterFamily({.name = "paceline_image_peer_answers_total",
                                           .help = "Requests for chunks by other nodes, by what they were given.",
                                           .label_names = {"result"}})),
      peers(registry.GaugeFamily({.name = "paceline_image_peers",
                                  .help = "Nodes that are asked for chunks: known, and bad, those left alone just now.",
                                  .label_names = {"state"}})),
      peer_given_bytes(registry.CounterFamily(
          {.name = "paceline_image_peer_given_bytes_total", .help = "Contents of chunks given to other nodes."})),
      sharing(registry.GaugeFamily(
          {.name = "paceline_image_sharing", .help = "1 while this node gives chunks to other nodes."})),
      read_bytes(registry.CounterFamily(
          {.name = "paceline_image_read_bytes_total", .help = "Bytes given to the kernel for lazy images."})),
      prefetched_bytes(registry.CounterFamily(
          {.name = "paceline_image_prefetched_bytes_total", .help = "Bytes from the origin that no read waited for."})),
      origin_requests(registry.CounterFamily(
          {.name = "paceline_image_origin_requests_total", .help = "Ranges that were asked of stores."})),
      damaged_chunks(registry.CounterFamily({.name = "paceline_image_damaged_chunks_total",
                                             .help = "Chunks that came with wrong bytes and were fetched again."})),
      open_images(registry.GaugeFamily({.name = "paceline_images_open", .help = "Converted images in use."})),
      cache_bytes(
          registry.GaugeFamily({.name = "paceline_image_cache_bytes", .help = "Contents of chunks on this disk."})) {
  // From zero on, so that a first one shows as an increase.
  for (const blocks::PeerResult result : blocks::kPeerResults) {
    peer_requests.With({std::string(blocks::PeerResultText(result))});
  }
  peer_requests.With({"skipped"});
  for (const blocks::GiveResult result : blocks::kGiveResults) {
    peer_answers.With({std::string(blocks::GiveResultText(result))});
  }
  for (const char* mode : {"mounted", "pulled"}) layers.With({mode});
  for (const char* reason : {"NotConverted", "PermissionDenied", "Unavailable", "DeadlineExceeded", "DataLoss"}) {
    fall_backs.With({reason});
  }
  for (const char* result : {"fetched", "failed", "recorded", "shared", "superfluous", "unshared"}) {
    hot_sets.With({result});
  }
}

}  // namespace paceline::snapshotter
