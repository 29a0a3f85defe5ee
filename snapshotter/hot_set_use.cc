#include "snapshotter/hot_set_use.h"

namespace paceline::snapshotter {

std::string_view HotSetPhaseText(HotSetPhase phase) {
  constexpr std::string_view kNames[] = {"Unknown", "None", "Recording", "Recorded", "Fetched", "Failed"};
  return kNames[static_cast<size_t>(phase)];
}

std::vector<blocks::Digest> IndexDigests(const blocks::BlockImageManifest& manifest) {
  std::vector<blocks::Digest> indexes;
  for (const blocks::BlockLayer& layer : manifest.layers) indexes.push_back(layer.index.digest);
  return indexes;
}

HotSetFacts FactsAbout(const blocks::ImageReader& image, const std::vector<blocks::Digest>& indexes,
                       const HotSet& set) {
  HotSetFacts facts;
  for (const blocks::ChunkId& id : ChunksFor(set, indexes)) {
    const blocks::LayerIndex& index = image.index(id.layer);
    if (id.chunk >= index.chunk_count()) continue;
    ++facts.chunks;
    facts.bytes += index.chunk(id.chunk).stored_bytes;
  }
  facts.digest = blocks::Sha256Of(EncodeHotSet(set)).ToString();
  return facts;
}

size_t PrefetchHotSet(blocks::ImageReader& image, const std::vector<blocks::Digest>& indexes, const HotSet& set,
                      uint64_t max_bytes) {
  std::vector<blocks::ChunkId> wanted;
  uint64_t bytes = 0;
  for (const blocks::ChunkId& id : ChunksFor(set, indexes)) {
    const blocks::LayerIndex& index = image.index(id.layer);
    if (id.chunk >= index.chunk_count()) continue;  // the set is no more than somebody's word
    bytes += index.chunk(id.chunk).stored_bytes;
    if (bytes > max_bytes) break;
    wanted.push_back(id);
  }
  image.Prefetch(wanted, blocks::FetchPriority::kPrefetch);
  return wanted.size();
}

}  // namespace paceline::snapshotter
